"""The dataset's tests again, over `memory://` and over S3 with a way to it that is faulty."""

import pytest

import starmill
from tests import factories, s3_server
from tests.schema import test_dataset
from tests.schema.test_dataset import (  # noqa: F401  # collected here once more
    test_batches_are_what_their_markers_say,
    test_compact_batches_expand_to_dense_ones,
    test_every_episode_comes_back,
    test_filters,
    test_hosts_share_the_batches,
    test_resuming_a_pass_in_order_is_exact,
    test_single_keys_and_kept_batches,
    test_windows_have_the_derived_arrays_of_the_whole,
)

# Clients of object stores leave sockets of failed requests to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore")
# Every so many requests fails, with 503 and with half an answer by turns.
EVERY = 7


@pytest.fixture(
    scope="module", params=["memory", pytest.param("s3", marks=pytest.mark.slow)]
)
def folder(request):
    if request.param == "memory":
        factories.dataset("memory://places", test_dataset.made_episodes())
        yield "memory://places"
        return
    with s3_server.running() as (url, faults):
        faults.every = EVERY
        factories.dataset(f"{url}/places", test_dataset.made_episodes())
        yield f"{url}/places"
        assert faults.requests > EVERY, "no request was spoiled"


@pytest.fixture
def opened(folder):
    return starmill.open_dataset(folder)


@pytest.mark.parametrize("name", ["episode", "step", "consecutive"])
def test_resuming_is_exact(opened, name):
    test_dataset.test_resuming_is_exact_over_1000_batches(opened, name)


def test_workers_give_the_same_batches(opened):
    if opened.url.startswith("memory:"):
        pytest.skip("memory:// is a process's own")
    test_dataset.test_workers_give_the_same_batches_and_resume_in_any_number(opened)

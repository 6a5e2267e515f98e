"""Batches of datasets in `memory://` and in an S3 store that fails some requests."""

import pytest

import starmill
from tests import s3_server
from tests.factories import datasets, records
from tests.schema.loader import test_batch_iterator

# Clients of object stores leave sockets of failed requests to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore")
# Every so many requests fails, with 503 and with half an answer by turns.
EVERY = 7


@pytest.fixture(
    scope="module", params=["memory", pytest.param("s3", marks=pytest.mark.slow)]
)
def folder(request):
    if request.param == "memory":
        records.dataset("memory://places", datasets.episodes())
        yield "memory://places"
        return
    with s3_server.running() as (url, faults):
        faults.every = EVERY
        records.dataset(f"{url}/places", datasets.episodes())
        yield f"{url}/places"
        assert faults.requests > EVERY, "no request was spoiled"


@pytest.fixture
def opened(folder):
    return starmill.open_dataset(folder)


@pytest.mark.parametrize("name", ["episode", "step", "consecutive"])
def test_resuming_is_exact(opened, name):
    test_batch_iterator.test_resuming_is_exact_over_1000_batches(opened, name)


def test_workers_give_the_same_batches(opened):
    if opened.url.startswith("memory:"):
        pytest.skip("memory:// is a process's own")
    test_batch_iterator.test_workers_give_the_same_batches_and_resume_in_any_number(
        opened
    )

"""A dataset of twelve episodes, for the tests of the loader."""

import pytest

import starmill
from tests.factories import datasets, records


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("dataset")
    records.dataset(str(path), datasets.episodes())
    return str(path)


@pytest.fixture
def opened(folder):
    return starmill.open_dataset(folder)

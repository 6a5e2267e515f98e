"""The exception tree: drawn as it is, pickled whole, and every member raised by some test."""

import inspect
import pickle
import re

import pytest

from starmill.schema import errors
from tests.conftest import ROOT

CLASSES = [
    value
    for value in vars(errors).values()
    if inspect.isclass(value) and issubclass(value, errors.StarmillError)
]


def _leaves():
    return [c for c in CLASSES if not any(c in other.__bases__ for other in CLASSES)]


def test_the_drawing_shows_every_class_and_no_other():
    drawn = re.findall(r"^[\s│├└─]*([A-Z]\w+)", errors.__doc__ or "", re.MULTILINE)
    names = [word for word in drawn if hasattr(errors, word)]
    assert sorted(names) == sorted(c.__name__ for c in CLASSES)


@pytest.mark.parametrize("error", _leaves(), ids=lambda c: c.__name__)
def test_every_leaf_is_expected_by_some_test(error):
    pattern = re.compile(rf"raises\([^)]*\b{error.__name__}\b")
    result = [
        path.name
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if path.name != "test_errors.py" and pattern.search(path.read_text("utf-8"))
    ]
    assert result, f"no test expects {error.__name__}"


@pytest.mark.parametrize("error", CLASSES, ids=lambda c: c.__name__)
def test_errors_survive_pickling(error):
    result = error("mmr", "below 3500") if error is errors.ReplayError else error("why")
    again = pickle.loads(pickle.dumps(result))
    assert type(again) is error
    assert str(again) == str(result)
    assert vars(again) == vars(result)


def test_a_choice_that_exists_is_no_problem():
    assert errors.choice_problem("split", "train", ["train", "valid"]) is None
    assert errors.choice_problem("outcome", 1, (1, 0, -1)) is None


def test_others_are_told_what_there_is():
    splits = ("train", "valid", "test")
    assert (
        errors.choice_problem("split", "tran", splits)
        == "split 'tran': there are train, valid, test; did you mean 'train'?"
    )
    assert (
        errors.choice_problem("split", "xyz", splits)
        == "split 'xyz': there are train, valid, test"
    )
    assert (
        errors.choice_problem("outcome", 2, (1, 0, -1))
        == "outcome 2: there are 1, 0, -1"
    )
    assert (
        errors.choice_problem("key", ["a"], ("a", "b")) == "key ['a']: there are a, b"
    )
    many = errors.choice_problem("map_name", "?", [f"map {n}" for n in range(50)])
    assert many.endswith("map 38, map 39 and 10 more")

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
    found = [
        path.name
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if path.name != "test_errors.py" and pattern.search(path.read_text("utf-8"))
    ]
    assert found, f"no test expects {error.__name__}"


@pytest.mark.parametrize("error", CLASSES, ids=lambda c: c.__name__)
def test_errors_survive_pickling(error):
    made = error("mmr", "below 3500") if error is errors.ReplayError else error("why")
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is error
    assert str(again) == str(made)
    assert vars(again) == vars(made)

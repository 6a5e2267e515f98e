"""Every reason for which a replay is rejected is expected by some test."""

import ast
import re
from collections.abc import Iterator

from starmill.schema.reasons import RejectReason
from tests.conftest import ROOT

# What a comparison is about if it expects a reason.
_SUBJECT = re.compile(r"reason|status|reject|quarantine|refused")


def _strings(node: ast.AST) -> Iterator[str]:
    for part in ast.walk(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value
        elif (
            isinstance(part, ast.Attribute)
            and ast.unparse(part.value).split(".")[-1] == "RejectReason"
        ):
            yield part.attr.lower()


def _expected(source: str) -> set[str]:
    """Returns the reasons that a test file compares with, or has in a table for it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and node.args:
            function = ast.unparse(node.func)
            if function.endswith("raises"):
                names.update(_strings(node))
            elif function.endswith("parametrize") and _SUBJECT.search(
                ast.unparse(node.args[0])
            ):
                names.update(_strings(node.args[1]))
        elif isinstance(node, ast.Compare) and _SUBJECT.search(ast.unparse(node)):
            names.update(_strings(node))
    return names


def test_every_reason_is_expected_by_some_test() -> None:
    expected: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        if path.name != "test_reasons.py":
            expected |= _expected(path.read_text("utf-8"))
    assert {reason.value for reason in RejectReason} - expected == set()


def test_only_expectations_count() -> None:
    source = """
@pytest.mark.parametrize(("reason", "row"), [("mmr", 1)])
def test(reason, row):
    row.map = "map"
    assert name == "race"
    assert check(row).status == RejectReason.TOO_LARGE
    with pytest.raises(errors.ReplayError, match="desync"):
        play("spec")
"""
    assert {r.value for r in RejectReason} & _expected(source) == {
        "mmr",
        "too_large",
        "desync",
    }

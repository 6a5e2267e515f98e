"""The shape of the repository: rooms, module sizes, names, imports, and paths named in docs."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

FOLDERS = ("schema", "converters", "engines", "pipelines", "learners", "benchmark")
PACKAGES = (*FOLDERS, "starmill/commands", "starmill/pages")
MOST_LINES, MOST_MODULES = 500, 20
# Names that say how a value came about, or nothing about it.
NO_NAMES = {"found", "chosen", "made", "got", "what", "who"}
BAGS = {"utils", "util", "common", "helpers", "helper", "misc", "base"}
# Files that a documented command writes.
GENERATED = {"perf/results.json"}
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def _modules(*folders: str) -> list[Path]:
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return sorted(path for path in paths if "__pycache__" not in path.parts)


def _sources() -> list[Path]:
    return [*sorted((ROOT / "starmill").glob("*.py")), *_modules(*PACKAGES)]


def test_links_and_folders_are_in_step() -> None:
    for folder in FOLDERS:
        link = ROOT / "starmill" / folder
        assert link.is_symlink()
        assert str(link.readlink()) == f"../{folder}"
        assert (ROOT / folder / "__init__.py").is_file()


def test_no_module_is_a_bag_or_too_long() -> None:
    for path in [*_sources(), *_modules("tests", "perf")]:
        assert path.stem not in BAGS, path
        lines = len(path.read_text("utf-8").splitlines())
        assert lines <= MOST_LINES, f"{path}: {lines} lines"


def test_no_room_is_crowded() -> None:
    rooms: dict[Path, int] = {}
    for path in [*_sources(), *_modules("tests", "perf")]:
        if path.stem != "__init__":
            rooms[path.parent] = rooms.get(path.parent, 0) + 1
    crowded = {str(room): n for room, n in rooms.items() if n > MOST_MODULES}
    assert not crowded


def test_every_room_has_a_door_that_says_what_it_is() -> None:
    """`__init__.py` holds a docstring and re-exports; never code."""
    rooms = {path.parent for path in _modules(*PACKAGES)}
    for room in rooms:
        tree = ast.parse((room / "__init__.py").read_text("utf-8"))
        text = ast.get_docstring(tree) or ""
        if room.name not in ("commands", "pages"):
            for word in ("Enters:", "Leaves:", "Must not know:"):
                assert word in text, f"{room}: its docstring has no {word!r}"
        for node in tree.body[1:]:
            exports = isinstance(node, ast.Assign) and ast.unparse(node.targets[0])
            assert isinstance(node, ast.ImportFrom) or exports == "__all__", room


def _imports(path: Path) -> Iterator[tuple[ast.stmt, str, str, str | None]]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node, node.module or "", alias.name, alias.asname
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield node, "", alias.name, alias.asname


def test_no_import_needs_a_suffix_to_be_told_apart() -> None:
    suffix = re.compile(r"_(lib|job|module)$")
    for path in [*_sources(), *_modules("tests", "perf")]:
        for _, module, name, alias in _imports(path):
            assert not (alias and suffix.search(alias)), f"{path}: {alias}"
            if module.startswith("starmill") and alias:
                assert alias == name or alias[0] == "_", f"{path}: {name} as {alias}"


def _variables(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yields the variables and parameters that are bound, without the fields of records."""
    fields = {
        statement.target
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
    }
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) if node not in fields:
                yield name, node.lineno


def test_variables_are_nouns() -> None:
    paths = [*_sources(), *_modules("tests", "perf")]
    for path in paths:
        for name, line in _variables(ast.parse(path.read_text("utf-8"))):
            assert name.strip("_") not in NO_NAMES, f"{path}:{line}: {name}"


def test_the_check_of_variables_can_fail() -> None:
    source = "class A:\n    what: str\n\ndef f(who):\n    found = 1\n"
    names = [name for name, _ in _variables(ast.parse(source))]
    assert names == ["who", "found"]


def test_own_modules_are_imported_at_the_top() -> None:
    """An import inside a function hides a cycle; lazy ones go through importlib."""
    for path in _sources():
        tree = ast.parse(path.read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.ImportFrom):
                        own = (inner.module or "").startswith("starmill")
                        assert not own, f"{path}:{inner.lineno}"


STARTS = """
import json, sys, threading
opened = []
def watch(event, arguments):
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        if "__pycache__" not in str(arguments[0]):
            opened.append(str(arguments[0]))
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "socket.bind"):
        opened.append(event)
sys.addaudithook(watch)
import importlib
for name in sys.argv[1:]:
    importlib.import_module(name)
threads = [thread.name for thread in threading.enumerate()]
from absl import flags
parsed = flags.FLAGS.is_parsed()
print(json.dumps({"opened": opened, "threads": threads, "parsed": parsed}))
"""


def _names(folder: str) -> list[str]:
    names = []
    for path in _modules(folder):
        parts = list(path.relative_to(ROOT).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts.pop()
        if parts[-1] != "__main__":
            names.append(
                ".".join(parts if parts[0] == "starmill" else ["starmill", *parts])
            )
    return names


@pytest.mark.parametrize("folder", ["schema", "converters", "engines"])
def test_importing_a_room_starts_nothing(folder: str) -> None:
    """No file is written, no process or thread started, no flag parsed."""
    output = subprocess.run(
        [sys.executable, "-c", STARTS, *_names(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    seen = json.loads(output.splitlines()[-1])
    assert seen == {"opened": [], "threads": ["MainThread"], "parsed": False}


def _named_paths(text: str) -> Iterator[str]:
    """Yields what a document writes in backticks that must be a file, folder or module."""
    rooms = "|".join((*FOLDERS, "starmill", "tests", "perf", "deploy", "docs"))
    for span in re.findall(r"`([^`\n]+)`", text):
        for word in re.findall(rf"(?<![\w./:-])(?:{rooms})/[\w./*{{}},-]*", span):
            yield word.rstrip(".,")
        yield from re.findall(rf"(?<![\w.])starmill(?:\.(?:{rooms}))(?:\.\w+)+", span)


def _braces(path: str) -> list[str]:
    """Returns `a/{b,c}` as `a/b` and `a/c`."""
    match = re.search(r"\{([^{}]*)\}", path)
    if match is None:
        return [path]
    return [
        each
        for middle in match[1].split(",")
        for each in _braces(path[: match.start()] + middle + path[match.end() :])
    ]


def _exists(name: str) -> bool:
    """Is there such a path, or such a module or name of a module?"""
    if not name.startswith("starmill."):
        path = ROOT / name.rstrip("/")
        result = any(ROOT.glob(name)) if "*" in name else path.exists()
        return result or path.with_suffix(".py").exists() or name in GENERATED
    parts = name.split(".")[1:]
    for count in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:count])
        module = path.with_suffix(".py")
        source = module if module.is_file() else path / "__init__.py"
        if source.is_file():
            text = source.read_text("utf-8")
            return all(re.search(rf"\b{part}\b", text) for part in parts[count:])
    return False


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_paths_named_in_documents_exist(document: Path) -> None:
    for named in _named_paths(document.read_text("utf-8")):
        for path in _braces(named):
            assert _exists(path), f"{document.name} names {path}, which does not exist"


def _picture() -> dict[str, list[str]]:
    """Returns the names in the boxes of the architecture's picture, by the room around them."""
    svg = (ROOT / "docs" / "architecture.svg").read_text("utf-8")
    boxes: dict[str, list[str]] = {}
    for kind, text in re.findall(
        r'class="(name|small)"(?: [^<>]*/><text)?[^<>]*>([^<>]+)<', svg
    ):
        if kind == "name":
            room = text.rstrip("/")
            boxes[room] = []
        else:
            boxes[room] += re.findall(r"\w+", text)
    return boxes


def test_the_picture_names_what_there_is() -> None:
    boxes = _picture()
    assert set(FOLDERS) < set(boxes)
    assert min(len(boxes[folder]) for folder in FOLDERS) >= 5
    for folder in FOLDERS:
        for name in boxes[folder]:
            inner = ROOT / folder / "skirmish" / name
            assert _exists(f"{folder}/{name}") or inner.is_dir(), f"{folder}: {name}"
    drawn = {folder: set(names) for folder, names in boxes.items()}
    for folder in ("pipelines", "learners", "benchmark"):
        rooms = {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}
        assert rooms <= drawn[folder], f"not in the picture: {rooms - drawn[folder]}"


def test_the_check_of_named_paths_can_fail() -> None:
    text = "`schema/{specs,none}.py`, `starmill.schema.nonsense`, `starmill.schema.specs.ArraySpec`"
    names = [path for named in _named_paths(text) for path in _braces(named)]
    assert names == [
        "schema/specs.py",
        "schema/none.py",
        "starmill.schema.nonsense",
        "starmill.schema.specs.ArraySpec",
    ]
    assert [_exists(name) for name in names] == [True, False, False, True]


def _is_record(node: ast.ClassDef) -> bool:
    marks = [*node.decorator_list, *node.bases]
    return any(re.search(r"dataclass|NamedTuple", ast.unparse(mark)) for mark in marks)


def _unlisted_fields(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef) and _is_record(node):
            fields = [
                part.target.id
                for part in node.body
                if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
            ]
            _, _, listed = (ast.get_docstring(node) or "").partition("Attributes:\n")
            for field in fields:
                if not re.search(rf"^ +{field}: \S", listed, re.M):
                    yield f"{node.name}.{field}"


def test_records_document_their_fields() -> None:
    missing = [
        f"{path.relative_to(ROOT)}: {field}"
        for path in _sources()
        for field in _unlisted_fields(path.read_text("utf-8"))
    ]
    assert missing == []


def test_the_check_of_fields_can_fail() -> None:
    record = '''
class Point(NamedTuple):
    """A point.

    Attributes:
        x: in cells.
    """

    x: int
    y: int
'''
    assert list(_unlisted_fields(record)) == ["Point.y"]
    assert list(_unlisted_fields(record.replace("NamedTuple", "object"))) == []


def _contained_rooms() -> set[str]:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    contracts = tomllib.loads(text)["tool"]["importlinter"]["contracts"]
    return {
        container
        for contract in contracts
        if contract["type"] == "layers" and contract.get("exhaustive")
        for container in contract.get("containers", [])
    }


def test_every_room_has_layers() -> None:
    """A room's contract names all its modules; only commands and pages need no order."""
    names = {".".join(path.relative_to(ROOT).parts[:-1]) for path in _modules(*FOLDERS)}
    rooms = {f"starmill.{name}" for name in names if len(_in_room(name)) > 1}
    assert rooms == _contained_rooms()


def _in_room(name: str) -> set[str]:
    """The modules and rooms directly inside a room."""
    folder = ROOT / name.replace(".", "/")
    inner = {path.parent.name for path in folder.glob("*/__init__.py")}
    return inner | {path.stem for path in folder.glob("*.py")} - {"__init__"}

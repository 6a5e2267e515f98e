"""The shape of the repository: links, module sizes and names."""

from tests.conftest import ROOT

FOLDERS = ("schema", "converters", "engines", "pipelines", "learners", "benchmark")


def test_links_and_folders_are_in_step():
    for folder in FOLDERS:
        link = ROOT / "starmill" / folder
        assert link.is_symlink()
        assert str(link.readlink()) == f"../{folder}"
        assert (ROOT / folder / "__init__.py").is_file()


def test_no_module_is_a_bag_or_too_long():
    bags = {"utils", "util", "common", "helpers", "helper", "misc", "base"}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            assert path.stem not in bags, path
            assert len(path.read_text("utf-8").splitlines()) <= 600, path

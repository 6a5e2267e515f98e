"""The documents' commands: each is accepted by its parser, and those that can run here do.

A fenced block `sh` is run as it stands, block after block in one folder per document.
`sh needs=...` names what a reader must have (the game, a cluster, an account, minutes of
time) and is only parsed; so are `starmill ...` lines in indented examples.
"""

import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from starmill import cli
from starmill.pipelines.inputs import packs
from starmill.schema import settings
from tests.conftest import ROOT
from tests.factories import records

DOCUMENTS = sorted(
    [
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
        *ROOT.glob("deploy/*/README.md"),
    ]
)
FENCE = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```", re.M | re.S)
# A synopsis shows choices and optional parts; it is not a command line.
SYNOPSIS = re.compile(r"[\[\]]|\.\.\.|\|")


def command_lines(text):
    """Returns the `starmill ...` lines of a document's code, continuation lines joined."""
    collected = []
    fenced = "\n".join(body for _, _, body in FENCE.findall(text))
    indented = "\n".join(re.findall(r"^    .*", FENCE.sub("", text), re.M))
    for line in re.sub(r"\\\n\s*", " ", f"{fenced}\n{indented}").splitlines():
        stripped = line.strip().removeprefix("$ ")
        if stripped.startswith("starmill ") and not SYNOPSIS.search(stripped):
            collected.append(stripped.split("  #")[0].split("     ")[0])
    return collected


def runnable_blocks(text):
    return [
        body
        for language, needs, body in FENCE.findall(text)
        if language == "sh" and not needs.strip()
    ]


LINES = [
    pytest.param(line, id=f"{document.relative_to(ROOT)}: {line}"[:100])
    for document in DOCUMENTS
    for line in command_lines(document.read_text("utf-8"))
]
RUNNABLE = [d for d in DOCUMENTS if runnable_blocks(d.read_text("utf-8"))]


@pytest.mark.parametrize("line", LINES)
def test_documented_command_is_accepted(line):
    words = shlex.split(line, comments=True)
    assert words[1] in cli.COMMANDS or words[1].startswith("-"), words[1]
    if words[1].startswith("-") or "--help" in words:
        return
    parser = cli.build_parser(words[1])
    _, unknown = parser.parse_known_args(words[2:])
    # `generate` hands what it does not know on to Beam; nobody else may have unknown words.
    assert words[1] == "generate" or unknown == []


def test_documented_passwords_are_accepted_where_workers_are_elsewhere():
    on_clusters = [
        shlex.split(line, comments=True)
        for document in DOCUMENTS
        for line in command_lines(document.read_text("utf-8"))
        if "--runner=" in line and "--pack-password" in line
    ]
    assert on_clusters
    for words in on_clusters:
        password = words[words.index("--pack-password") + 1]
        assert packs.password_source(password, is_local=False), password


def test_the_documents_show_commands():
    assert len(LINES) > 20


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.parametrize(
    "document", RUNNABLE, ids=lambda path: str(path.relative_to(ROOT))
)
def test_documented_commands_run(document, tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for block in runnable_blocks(document.read_text("utf-8")):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (
            f"{block}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        )


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("README.md", "(64, 512, "),
        ("docs/using-the-data.md", "(16, 64, 11)"),
        ("docs/train-in-20-lines.md", "loss "),
    ],
)
def test_the_python_of_a_page_runs(page, shown, tmp_path):
    """All its Python, one block after the other, in one program."""
    blocks = [
        body
        for language, needs, body in FENCE.findall((ROOT / page).read_text("utf-8"))
        if language == "python" and not needs.strip()
    ]
    assert blocks
    episodes = [
        records.episode(seed, steps=200, settings=settings.UNPLUGGED)
        for seed in range(4)
    ]
    records.dataset(str(tmp_path / "data"), episodes, settings=settings.UNPLUGGED)
    # Workers are spawned, so the page asks for the usual guard.
    body = textwrap.indent("\n".join(blocks), "    ")
    script = tmp_path / "page.py"
    script.write_text(f'if __name__ == "__main__":\n{body}', "utf-8")
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert shown in done.stdout


def test_links_between_documents_lead_somewhere():
    broken = []
    for document in [*DOCUMENTS, ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(
            r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text("utf-8")
        ):
            if not (document.parent / target).exists():
                broken.append(f"{document.relative_to(ROOT)} -> {target}")
    assert broken == []


def test_the_words_of_the_glossary_are_used():
    """Each word of the glossary stands in the code or in another document."""
    glossary = ROOT / "docs/glossary.md"
    words = re.findall(r"^\| \*\*(.+?)\*\*", glossary.read_text("utf-8"), re.M)
    assert len(words) == len(set(words)) > 40
    packages = ("schema", "converters", "engines", "pipelines", "learners", "benchmark")
    modules = [path for name in packages for path in (ROOT / name).rglob("*.py")]
    pages = [page for page in DOCUMENTS if page != glossary]
    text = "\n".join(path.read_text("utf-8") for path in [*modules, *pages])
    # A word of two parts may continue on the next line of a comment or a docstring.
    flat = re.sub(r"\s+(?:# )?", " ", text.lower())
    unused = [
        word
        for word in words
        if not re.search(rf"\b{re.escape(word.lower())}s?\b", flat)
    ]
    assert unused == []

"""The first hour of a new user: a wheel, an empty environment, then one extra after the other.

    python -m tests.first_hour [--python PYTHON] [--stop-after STAGE]

Builds the wheel and installs it without extras into an environment of its own. There it runs
what a reader can do, and checks that every other command names its extra. Then it installs each
extra and runs the quickstart's blocks as written. Prints every command with its seconds.
Exits 1 at the first command that ends otherwise than expected, and shows its output.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from tests.conftest import ROOT

STORED = ROOT / "tests/golden/formats_0_1/small_dataset"
UV = ROOT / ".venv/bin/uv"
COMMAND_SECONDS = 1500
# Of an installation without extras: pyarrow and the LLVM library of numba alone take 320 MB.
READER_MEGABYTES = 500
_FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```", re.M | re.S)


class Failure(Exception):
    """A command that ended otherwise than expected."""


class Hour:
    """One new user's machine: a folder, an environment and the wheel.

    Args:
        work: an empty folder.
        python: the interpreter of the environment.
    """

    def __init__(self, work: Path, python: str) -> None:
        self._home = work / "home"
        self._home.mkdir()
        self._venv = work / "venv"
        keep = ("PATH", "LANG", "SSL_CERT_FILE", "UV_CACHE_DIR", "HTTPS_PROXY")
        self._environment = {
            **{name: os.environ[name] for name in keep if name in os.environ},
            **{k: v for k, v in os.environ.items() if k.startswith(("PIP_", "UV_"))},
            "HOME": str(self._home),
        }
        self.run([sys.executable, "setup.py", "-q", "bdist_wheel", "-d", work], ROOT)
        (self._wheel,) = work.glob("*.whl")
        self.run([python, "-m", "venv", self._venv])
        path = f"{self._venv / 'bin'}{os.pathsep}{self._environment['PATH']}"
        self._environment["PATH"] = path

    def install(self, extra: str) -> None:
        """Installs the wheel with an extra; "" for none."""
        requirement = f"{self._wheel}[{extra}]" if extra else str(self._wheel)
        python = self._venv / "bin/python"
        if UV.exists():
            self.run([UV, "pip", "install", "-q", "--python", python, requirement])
        else:
            self.run([python, "-m", "pip", "install", "-q", requirement])

    def run(
        self, words: list[str | Path], folder: Path | None = None, code: int = 0
    ) -> str:
        """Runs a command in the user's folder and returns what it printed."""
        shown = shlex.join(str(word) for word in words).replace(str(ROOT), ".")
        start = time.monotonic()
        done = subprocess.run(
            [str(word) for word in words],
            cwd=folder or self._home,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        seconds = time.monotonic() - start
        print(f"{seconds:7.1f} s  {textwrap.shorten(shown, 110)}", flush=True)
        if done.returncode != code:
            raise Failure(f"exit {done.returncode}, expected {code}:\n{done.stdout}")
        return done.stdout

    def shell(self, block: str) -> None:
        """Runs each command of a document's block as written."""
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            if line.strip():
                self.run(["bash", "-euo", "pipefail", "-c", line])

    def python(self, code: str) -> str:
        """Runs Python code, as a file."""
        script = self._home / "snippet.py"
        script.write_text(code, "utf-8")
        return self.run(["python", script])

    def needs(self, extra: str, command: str) -> None:
        """Checks that a command ends with one line that names its extra."""
        output = self.run(["starmill", *shlex.split(command)], code=2)
        if len(output.splitlines()) != 1 or f"starmill[{extra}]" not in output:
            raise Failure(f"expected one line that names starmill[{extra}]:\n{output}")

    def size_megabytes(self) -> float:
        """Returns the size of what is installed, without pip."""
        files = [p for p in self._venv.rglob("*") if p.is_file() and not p.is_symlink()]
        sizes = [p.stat().st_size for p in files if "/pip/" not in str(p)]
        return sum(sizes) / 1e6


def _blocks(document: str, heading: str) -> list[tuple[str, str]]:
    """Returns (language, code) of the blocks below a heading of a document."""
    text = (ROOT / document).read_text("utf-8")
    section = re.split(rf"^## {re.escape(heading)}$", text, flags=re.M)[1]
    return _FENCE.findall(re.split(r"^## ", section, flags=re.M)[0])


def _quickstart(hour: Hour, heading: str) -> None:
    for language, code in _blocks("docs/quickstart.md", heading):
        if language == "sh":
            hour.shell(code)
        else:
            hour.python(code)


def reader(hour: Hour) -> None:
    """Installs no extra: reads a dataset, and asks for each extra."""
    hour.install("")
    size = hour.size_megabytes()
    print(f"           installed: {size:.0f} MB")
    if size > READER_MEGABYTES:
        raise Failure(f"a reader's size: expected at most {READER_MEGABYTES} MB")
    hour.python("import starmill; print(starmill.__version__)")
    for command in ("doctor", "completion bash", f"info {STORED}", f"verify {STORED}"):
        hour.run(["starmill", *shlex.split(command)])
    hour.run(["starmill", "diff", STORED, STORED])
    hour.run(["starmill", "report", STORED, "--out", "report.html"])
    hour.run(["starmill", "export", "--format", "npz", STORED, "--out", "npz"])
    hour.run(["starmill", "publish", STORED, "published"])
    hour.run(["starmill", "get", "published", "copy"])
    hour.run(["starmill", "verify", "copy"])
    hour.python(
        "import starmill\n"
        f"dataset = starmill.open_dataset({str(STORED)!r})\n"
        "options = starmill.BatchOptions(batch_size=2, rollout=4, seed=0)\n"
        "with dataset.batches(options) as batches:\n"
        "    print(next(batches)['action/function'].shape)\n"
    )
    hour.needs("generate", "skirmish ladder --games 1 --out x")
    hour.needs("generate", "generate --replays x --output y")
    hour.needs("learners", f"train --agent bc --dataset {STORED} --out x")
    hour.needs("tensorflow", f"export --format rlds {STORED} --out x")
    hour.needs("s3", "info s3://bucket/data")
    hour.needs("gcp", "info gs://bucket/data")
    hour.needs("hub", "info hf://datasets/me/data")


def generate(hour: Hour) -> None:
    """Installs `generate`: replays to a dataset."""
    hour.install("generate")
    _quickstart(hour, "Replays")
    _quickstart(hour, "A dataset")
    _quickstart(hour, "Your own code")


def learners(hour: Hour) -> None:
    """Installs `learners`: trains an agent and lets it play."""
    hour.install("learners")
    _quickstart(hour, "An agent")


def tensorflow(hour: Hour) -> None:
    """Installs `tensorflow`: exports for TFDS and reads it back."""
    hour.install("tensorflow")
    hour.run(["starmill", "export", "--format", "rlds", STORED, "--out", "rlds"])
    hour.python(
        "import pathlib\n"
        "import tensorflow_datasets as tfds\n"
        "folder = next(pathlib.Path('rlds').glob('*/*'))\n"
        "builder = tfds.builder_from_directory(folder)\n"
        "print(sum(split.num_examples for split in builder.info.splits.values()))\n"
    )


STAGES: tuple[Callable[[Hour], None], ...] = (reader, generate, learners, tensorflow)


def main() -> int:
    """Runs the stages in order."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--stop-after", choices=[stage.__name__ for stage in STAGES])
    args = parser.parse_args()
    work = Path(tempfile.mkdtemp(prefix="starmill-first-hour-"))
    start = time.monotonic()
    try:
        hour = Hour(work, args.python)
        for stage in STAGES:
            print(f"== {stage.__doc__}")
            stage(hour)
            if stage.__name__ == args.stop_after:
                break
    except (Failure, subprocess.TimeoutExpired) as error:
        print(f"first hour: no: {error}")
        return 1
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"first hour: yes, {(time.monotonic() - start) / 60:.1f} minutes")
    return 0


if __name__ == "__main__":
    sys.exit(main())

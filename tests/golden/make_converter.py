"""Records tests/golden/converter with DeepMind's own converter.

    python -m tests.golden.make_converter PYTHON310

PYTHON310 is an interpreter with the pysc2 wheel (`make reference` makes one). The captures come
from `tests.factories.random_captures`; what is recorded does not depend on starmill.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from starmill.converters import capture
from tests.factories import odd_captures, random_captures

HERE = Path(__file__).resolve().parent / "converter"
RECORDER = HERE.parents[1] / "reference/record_converter.py"
# Chosen for what they cover: every num_unit_features, with and without a virtual camera,
# opponent features, agents' own actions, floats that are not numbers.
SEEDS = {
    "tame": (0, 1, 2, 3, 5, 6, 8, 9),
    "wild": (12, 13, 14, 18),
    "agent": (21, 22, 24, 28),
}
ODD_SEED = 7


def captures() -> dict[str, capture.Capture]:
    cases = {}
    for kind, seeds in SEEDS.items():
        for seed in seeds:
            cases[f"{kind}_{seed}"] = random_captures.capture(
                seed, tame=kind != "wild", wild=kind == "wild", agent=kind == "agent"
            )
    return cases


def _record(python: str, inputs: Path, outputs: Path) -> None:
    subprocess.run([python, str(RECORDER), str(inputs), str(outputs)], check=True)


def _write(folder: Path, cases: dict[str, capture.Capture]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, case in cases.items():
        data = capture.to_bytes(capture.to_arrays(case))
        (folder / f"{name}.npz").write_bytes(data)


def main(python: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        _write(work / "inputs", captures())
        _record(python, work / "inputs", work / "outputs")
        for folder in ("inputs", "expected"):
            (HERE / folder).mkdir(parents=True, exist_ok=True)
            for old in (HERE / folder).glob("*.npz"):
                old.unlink()
        for source in sorted((work / "inputs").glob("*.npz")):
            result = work / "outputs" / source.name
            if result.exists():  # the reference did not refuse it
                (HERE / "inputs" / source.name).write_bytes(source.read_bytes())
                (HERE / "expected" / source.name).write_bytes(result.read_bytes())
        odd = {
            str(index): odd_captures.odd(oddity, ODD_SEED)
            for index, oddity in enumerate(odd_captures.ODDITIES)
        }
        _write(work / "odd", odd)
        _record(python, work / "odd", work / "odd_outputs")
        outcomes = {}
        for index, oddity in enumerate(odd_captures.ODDITIES):
            told = json.loads((work / "odd_outputs" / f"{index}.json").read_text())
            outcomes[oddity] = {
                key: told[key] for key in ("outcome", "stage", "step", "message")
            }
            # Where in the source the check stands, and when, is no part of it.
            outcomes[oddity]["message"] = told["message"].split("] ")[-1]
        text = json.dumps(outcomes, indent=1, sort_keys=True) + "\n"
        (HERE / "oddities.json").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1])

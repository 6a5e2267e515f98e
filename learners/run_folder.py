"""The files that `starmill train` writes into a run's folder, by name.

In: the folder. Out: paths in it. Knows nothing of what the files hold and imports no JAX, so the
benchmark can look for a checkpoint without loading one.

    FOLDER/
      run.json             what was asked for: see `training`
      checkpoints/NUMBER/  one folder for each saved update: see `checkpoint`
      metrics.csv, ...     what training measured: see `journal`
      prediction.json      how well held-out games are predicted: see `prediction`
"""

from pathlib import Path

RUN = "run.json"
CHECKPOINTS = "checkpoints"
PREDICTION = "prediction.json"


def checkpoints(folder: Path) -> list[Path]:
    """Returns the folders of a run's checkpoints, oldest first; none if it has none."""
    numbered = [
        path for path in (folder / CHECKPOINTS).glob("*") if path.name.isdigit()
    ]
    return sorted(numbered, key=lambda path: int(path.name))


def newest_checkpoint(folder: Path) -> Path | None:
    """Returns the folder of a run's newest checkpoint; None if it has none."""
    return next(reversed(checkpoints(folder)), None)

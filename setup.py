"""Packaging: the folders at the root install as subpackages of `starmill`.

`ROOMS` maps each folder to its import name, so the wheel is the same with and without the
links of `starmill/`. The links serve tools that read the source tree (mypy, pytest).
"""

import re
import sys
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
VERSION = re.search(
    r'^__version__ = "(.+)"$', (ROOT / "starmill/version.py").read_text(), re.M
)
if VERSION is None:
    raise SystemExit('starmill/version.py: expected a line __version__ = "..."')

ROOMS = ("schema", "converters", "engines", "pipelines", "learners", "benchmark")
for room in ROOMS:
    link = ROOT / "starmill" / room
    if not (ROOT / room / "__init__.py").is_file():
        raise SystemExit(f"{room}/: expected a package, found no {room}/__init__.py")
    # A wheel needs no links. An editable install reads the tree as it is.
    if "editable_wheel" in sys.argv and not link.is_dir():
        raise SystemExit(
            f"starmill/{room}: expected a link to ../{room}, found none. This clone was made "
            "without symbolic links: run `git config core.symlinks true` and `git checkout -- "
            "starmill`, or install without --editable."
        )


def packages() -> list[str]:
    """Returns every package by import name; links are left out, folders stand for them."""
    names = ["starmill", "starmill.commands", "starmill.commands.pages"]
    names += ["starmill.pages"]
    for room in ROOMS:
        names += [f"starmill.{room}"]
        names += [f"starmill.{room}.{name}" for name in find_packages(room)]
    return names


# Data beside the modules, and in folders of data below them (schema/tables).
DATA = ["*.json", "*.csv", "*.html", "*.css", "*.js", "*.agent", "LICENSE.txt"]
# What reading a dataset takes, and no more.
CORE = [
    "fsspec>=2024.6",
    "google-crc32c>=1.5",
    "numba>=0.61",
    "numpy>=2.0",
    "protobuf>=6.31,<7",
    "pyarrow>=15",
    "zstandard>=0.23",
]
GENERATE = [
    "absl-py",
    "apache-beam>=2.77,<3",
    "dm-env>=1.6",
    "mpyq>=0.2.5",
    "pysc2==4.0.0",
    "s2clientprotocol>=5.0.14",
    "s2protocol>=5.0.14",
    "websockets>=14",
]
LEARNERS = [
    "chex",
    "flax>=0.12",
    "jax>=0.6",
    "mctx>=0.0.6",
    "optax",
    "orbax-checkpoint>=0.11",
]
TENSORFLOW = ["tensorflow-cpu>=2.20", "tensorflow-datasets>=4.9.9"]
S3 = ["s3fs>=2024.6"]
GCP = ["apache-beam[gcp]>=2.77,<3", "gcsfs>=2024.6"]
WANDB = ["wandb>=0.19"]
HUB = ["huggingface-hub>=0.30"]
ALL = [*GENERATE, *LEARNERS, *TENSORFLOW, *S3, *GCP, *HUB, *WANDB]
DOCS = ["mkdocs-jupyter", "mkdocs-material>=9.5", "mkdocstrings[python]>=0.27"]
DEV = [
    *DOCS,
    "datasets",
    "duckdb",
    "grain",
    "gymnasium>=1.0",
    "hypothesis",
    "ipykernel",
    "import-linter",
    "matplotlib",
    "mlcroissant",
    "moto[server]",
    "mypy",
    "nbclient",
    "pandas",
    "polars",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "ruff",
    "sc2reader",
    "scikit-learn",
    "scipy",
    "selenium",
    "tensorboard",
    "types-protobuf",
    "types-s2clientprotocol",
]

setup(
    name="starmill",
    version=VERSION.group(1),
    description="StarCraft II replays to the AlphaStar Unplugged benchmark",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    keywords="starcraft offline-rl dataset reinforcement-learning jax beam",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    python_requires=">=3.11,<3.14",
    packages=packages(),
    package_dir={f"starmill.{room}": room for room in ROOMS},
    package_data={"": ["py.typed", *DATA, *[f"*/{pattern}" for pattern in DATA]]},
    install_requires=CORE,
    extras_require={
        "generate": GENERATE,
        "learners": LEARNERS,
        "tensorflow": TENSORFLOW,
        "gcp": GCP,
        "s3": S3,
        "hub": HUB,
        "wandb": WANDB,
        "all": ALL,
        "dev": [*ALL, *DEV],
    },
    entry_points={"console_scripts": ["starmill = starmill.cli:main"]},
)

"""Packaging: the folders at the root install as subpackages of `starmill`.

`starmill/` holds relative links to the root folders, so a plain package search finds
everything under the one import name.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
VERSION = re.search(
    r'^__version__ = "(.+)"$', (ROOT / "starmill/version.py").read_text(), re.M
)
if VERSION is None:
    raise SystemExit('starmill/version.py: expected a line __version__ = "..."')

# Data beside the modules, and in folders of data below them (schema/tables).
DATA = ["*.json", "*.csv", "*.html", "*.css", "*.js", "*.agent"]
CORE = [
    "absl-py",
    "apache-beam>=2.77,<3",
    "fsspec>=2024.6",
    "google-crc32c>=1.5",
    "mpyq>=0.2.5",
    "numba>=0.61",
    "numpy>=2.0",
    "protobuf>=6.31,<7",
    "pyarrow>=15",
    "pysc2==4.0.0",
    "s2clientprotocol>=5.0.14",
    "s2protocol>=5.0.14",
    "websockets>=14",
    "zstandard>=0.23",
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
DEV = [
    "duckdb",
    "grain",
    "hypothesis",
    "import-linter",
    "matplotlib",
    "moto[server]",
    "mypy",
    "pandas",
    "polars",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "ruff",
    "sc2reader",
    "scipy",
    "selenium",
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
    python_requires=">=3.11,<3.14",
    packages=find_packages(include=["starmill", "starmill.*"]),
    package_data={"": ["py.typed", *DATA, *[f"*/{pattern}" for pattern in DATA]]},
    install_requires=CORE,
    extras_require={
        "learners": LEARNERS,
        "tensorflow": TENSORFLOW,
        "gcp": GCP,
        "s3": S3,
        "dev": [*LEARNERS, *TENSORFLOW, *S3, *GCP, *DEV],
    },
    entry_points={"console_scripts": ["starmill = starmill.cli:main"]},
)

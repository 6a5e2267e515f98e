"""The game's message classes, and pysc2, on a current Python and protobuf.

Nothing else imports s2clientprotocol. Importing this module puts one finder at the front of
`sys.meta_path`, which touches only two things:

* `s2clientprotocol.*_pb2`: the published files come from a protoc too old for protobuf 4.
  Old ones are read, never executed: each holds its serialized FileDescriptorProto in one
  literal, from which protobuf's own builder makes the classes. Modern ones are left alone.
* `pysc2.lib.colors`, which calls `random.shuffle(x, random)`, an argument that Python 3.11
  removed: that module gets its own `shuffle` with the old meaning.
"""

import ast
import importlib
import importlib.abc
import importlib.machinery
import re
import sys
import types
from collections.abc import Callable, MutableSequence, Sequence
from typing import Any

from absl import flags
from google.protobuf.message import DecodeError

from starmill.schema import errors

_PB2 = re.compile(r"s2clientprotocol\.\w+_pb2")
_SERIALIZED = re.compile(
    r"^\s*serialized_pb=(?:_b\()?(b?(['\"]).*\2)\)?,?\s*$", re.MULTILINE
)


class _DescriptorLoader(importlib.machinery.SourceFileLoader):
    """Builds a protobuf module from the descriptor inside old generated code."""

    def exec_module(self, module: types.ModuleType) -> None:
        from google.protobuf import descriptor_pb2, descriptor_pool
        from google.protobuf.internal import builder

        literal_match = _SERIALIZED.search(self.get_data(self.path).decode("utf-8"))
        if literal_match is None:
            super().exec_module(module)
            return
        literal = ast.literal_eval(literal_match.group(1))
        data = literal if isinstance(literal, bytes) else literal.encode("latin1")
        described = descriptor_pb2.FileDescriptorProto.FromString(data)
        for dependency in described.dependency:
            name = dependency.removesuffix(".proto").replace("/", ".")
            importlib.import_module(f"{name}_pb2")
        names = vars(module)
        names["DESCRIPTOR"] = descriptor_pool.Default().AddSerializedFile(data)
        builder.BuildMessageAndEnumDescriptors(names["DESCRIPTOR"], names)
        builder.BuildTopDescriptorsAndMessages(
            names["DESCRIPTOR"], module.__name__, names
        )


def _shuffle(values: MutableSequence[Any], random: Callable[[], float]) -> None:
    """`random.shuffle(x, random)` as Python 3.10 had it."""
    for i in reversed(range(1, len(values))):
        j = int(random() * (i + 1))
        values[i], values[j] = values[j], values[i]


class _ColorsLoader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: types.ModuleType) -> None:
        super().exec_module(module)
        vars(module)["random"] = types.SimpleNamespace(shuffle=_shuffle)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname == "pysc2.lib.colors":
            loader: type[importlib.machinery.SourceFileLoader] = _ColorsLoader
        elif _PB2.fullmatch(fullname):
            loader = _DescriptorLoader
        else:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin and spec.origin.endswith(".py"):
            spec.loader = loader(fullname, spec.origin)
        return spec


def install() -> None:
    """Makes s2clientprotocol and pysc2 importable in this process; idempotent."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def mark_flags_parsed() -> None:
    """Lets pysc2 read its absl flags outside `absl.app.run`, where reading them raises."""
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()


install()
try:
    from s2clientprotocol import (
        common_pb2,
        data_pb2,
        debug_pb2,
        error_pb2,
        query_pb2,
        raw_pb2,
        sc2api_pb2,
        score_pb2,
        spatial_pb2,
        ui_pb2,
    )
except ModuleNotFoundError:
    raise  # not installed: the command line says which extra has it
except ImportError as error:
    raise errors.ConfigError(
        "the game's message classes cannot be imported: expected the package "
        f"s2clientprotocol>=5.0.14, found {error}. Run: pip install s2clientprotocol"
    ) from error

__all__ = [
    "DecodeError",
    "common_pb2",
    "data_pb2",
    "debug_pb2",
    "error_pb2",
    "install",
    "mark_flags_parsed",
    "query_pb2",
    "raw_pb2",
    "sc2api_pb2",
    "score_pb2",
    "spatial_pb2",
    "ui_pb2",
]

"""`starmill publish`: copies a dataset or an agent to a folder, an object store or a hub."""

import argparse
import importlib
import tempfile
from pathlib import Path

from starmill import progress
from starmill.learners import run_folder
from starmill.pipelines import transfer
from starmill.schema import errors, registry, storage
from starmill.schema.manifest import Manifest

EXAMPLES = """\
  starmill publish data s3://bucket/ladder
  starmill publish 'data#sha256:0f3c...' hf://datasets/me/ladder --register starmill-registry.json
  starmill publish runs/bc gs://bucket/agents/bc.agent
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "source",
        metavar="DATASET|AGENT",
        help="path, URL or reference of a dataset; an .agent file; or a training run",
    )
    parser.add_argument(
        "target",
        metavar="PLACE",
        help="folder or URL to copy to (s3://, gs://, hf://); for an agent also a "
        "name that ends in .agent",
    )
    add_copy_arguments(parser)


def add_copy_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options that `get` and `publish` share."""
    parser.add_argument(
        "--registry", metavar="FILE", help="registry that knows the name"
    )
    parser.add_argument(
        "--register", metavar="FILE", help="add the copied dataset to this registry"
    )
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="continue the copy of another machine that no longer runs",
    )


def run(args: argparse.Namespace) -> int:
    """Copies, and prints the reference of the copy as the last line."""
    place = args.source.partition("#")[0]
    if place.endswith(transfer.AGENT_ENDING):
        print(_published(transfer.digest_file(place), args))
    elif storage.is_local(place) and run_folder.newest_checkpoint(Path(place)):
        agent_file = importlib.import_module("starmill.learners.agent_file")
        with tempfile.TemporaryDirectory(prefix="starmill-") as folder:
            path = Path(folder, Path(place).resolve().name + transfer.AGENT_ENDING)
            agent_file.pack(Path(place), path)
            print(_published(transfer.digest_file(str(path)), args))
    else:
        folder, content = registry.open_manifest(args.source, args.registry)
        print(copy_dataset("publish", folder, content, args))
    return 0


def _published(agent: transfer.File, args: argparse.Namespace) -> str:
    """Copies an agent and returns its reference."""
    if args.register:
        raise errors.ConfigError("--register: a registry holds datasets, not agents")
    digest = transfer.split_reference(args.source)[1]
    if digest not in (None, agent.sha256):
        raise errors.ManifestMismatch(
            f"{args.source}: expected sha256:{digest}, found sha256:{agent.sha256}"
        )
    return f"{transfer.copy_agent(agent, args.target)}#sha256:{agent.sha256}"


def copy_dataset(
    label: str, folder: str, content: Manifest, args: argparse.Namespace
) -> str:
    """Copies a dataset with progress, and returns the lines to print."""
    done = [0]

    def on_bytes(count: int) -> None:
        done[0] += count

    total = sum(file.size_bytes for file in transfer.dataset_files(content))
    with progress.Progress(label, _megabytes(total), "MB", lambda: _megabytes(done[0])):
        copied = transfer.copy_dataset(
            folder, content, args.target, take_over=args.take_over, on_bytes=on_bytes
        )
    if args.register:
        url = args.target
        if storage.is_local(url):
            url = str(Path(storage.local_path(url)).resolve())
        name = f"{content.name}@{content.version}"
        registry.add(Path(args.register), name, url, content.digest())
    return (
        f"{copied.files} files, {copied.size_bytes:,} bytes; {copied.reused} files were "
        f"there already\n{content.reference()}\n{args.target}#{content.digest()}"
    )


def _megabytes(size_bytes: int) -> int:
    return -(-size_bytes // 10**6)

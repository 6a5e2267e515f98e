"""`starmill info`: prints what a dataset's manifest says about it."""

import argparse
import json
from pathlib import Path
from typing import Any

from starmill.schema import manifest, registry

EXAMPLES = """\
  starmill info data
  starmill info data --json
  starmill info 'gs://bucket/data#sha256:0f3c...'
  starmill info data --register starmill-registry.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("dataset", metavar="DATASET", help="path, URL or reference")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--registry", metavar="FILE", help="registry that knows the name"
    )
    parser.add_argument(
        "--register", metavar="FILE", help="add the dataset to this registry"
    )


def run(args: argparse.Namespace) -> int:
    """Prints the facts of the manifest; decodes no episode."""
    folder, content = registry.open_manifest(args.dataset, args.registry)
    if args.register:
        url = folder if "://" in folder else str(Path(folder).resolve())
        name = f"{content.name}@{content.version}"
        registry.add(Path(args.register), name, url, content.digest())
    if args.json:
        print(json.dumps(_facts(content), sort_keys=True, indent=1))
    else:
        print(_text(content))
    return 0


def _facts(content: manifest.Manifest) -> dict[str, Any]:
    return {
        "reference": content.reference(),
        "digest": content.digest(),
        "name": content.name,
        "version": content.version,
        "engine": content.engine,
        "replays": content.replays,
        "episodes": content.episodes,
        "quarantined": content.quarantined,
        "steps": content.steps,
        "bytes": content.size_bytes,
        "schema": content.schema,
        "settings": content.settings.to_json(),
        "selection": content.selection,
        "replay_set": content.replay_set,
        "starmill": content.starmill,
        "codec": content.codec,
        "libraries": content.libraries,
        "statistics": content.statistics,
        "shards": [entry.name for entry in content.shards],
    }


def _text(content: manifest.Manifest) -> str:
    numbers = content.statistics
    mmr = numbers["mmr"]
    per_step = content.size_bytes / max(content.steps, 1)
    lines = [
        content.reference(),
        f"  engine      {content.engine}",
        f"  episodes    {content.episodes:,} of {content.replays:,} replays, "
        f"{content.quarantined:,} quarantined",
        f"  steps       {content.steps:,}, {numbers['game_loops']:,} game loops",
        f"  bytes       {content.size_bytes:,} in {len(content.shards)} shards, "
        f"{per_step:.0f} per step",
        f"  mmr         {mmr['min']} to {mmr['max']}, known for {mmr['known']:,}",
    ]
    for title, key in (
        ("splits", "by_split"),
        ("races", "by_race"),
        ("maps", "by_map"),
        ("outcomes", "by_outcome"),
        ("versions", "by_game_version"),
    ):
        counts = ", ".join(f"{name} {count:,}" for name, count in numbers[key].items())
        lines.append(f"  {title:<11} {counts}")
    libraries = ", ".join(
        f"{name} {v}" for name, v in sorted(content.libraries.items())
    )
    lines += [
        f"  schema      {content.schema}",
        f"  replay set  sha256:{content.replay_set}",
        f"  selection   {json.dumps(content.selection, sort_keys=True)}",
        f"  made by     starmill {content.starmill}, codec {content.codec}, {libraries}",
    ]
    return "\n".join(lines)

"""What is written beside a dataset for people and catalogues: a card, and Croissant metadata.

In: a manifest without these two files. Out: `README.md` and `croissant.json`, as bytes that
depend on the manifest alone. Croissant is JSON-LD by MLCommons, which dataset searches read.
"""

import json
from collections.abc import Mapping
from typing import Any

import pyarrow

from starmill.schema import manifest, specs, table

README, CROISSANT = "README.md", "croissant.json"
_TYPES = {
    pyarrow.string(): "sc:Text",
    pyarrow.int32(): "sc:Integer",
    pyarrow.int64(): "sc:Integer",
    pyarrow.float64(): "sc:Float",
}
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "md5": "cr:md5",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "repeated": "cr:repeated",
    "sc": "https://schema.org/",
    "sha256": "cr:sha256",
    "source": "cr:source",
    "transform": "cr:transform",
}


def readme(content: manifest.Manifest) -> bytes:
    """Returns the dataset card."""
    numbers = content.statistics
    mmr: Mapping[str, Any] = numbers["mmr"]
    lines = [
        f"# {content.name} {content.version}",
        "",
        f"{content.episodes:,} episodes (one player's side of a game each) of "
        f"{content.replays:,} StarCraft II replays, {content.steps:,} steps, "
        f"{content.size_bytes:,} bytes.",
        f"Played by: **{content.engine}**. Made by starmill {content.starmill}.",
        "",
        "```python",
        "import starmill",
        'dataset = starmill.open_dataset("PATH OF THIS FOLDER")',
        "options = starmill.BatchOptions(batch_size=16, rollout=64, seed=0)",
        "with dataset.batches(options) as batches:",
        "    batch = next(batches)",
        "```",
        "",
        "| | |",
        "|---|---|",
        f"| schema | `{content.schema}` |",
        f"| replay set | `sha256:{content.replay_set}` |",
        f"| quarantined | {content.quarantined:,} sides of selected replays |",
        f"| game loops | {numbers['game_loops']:,} |",
        f"| MMR | {mmr['min']} to {mmr['max']}, known for {mmr['known']:,} |",
        f"| steps of an episode | {numbers['steps']['min']} to {numbers['steps']['max']} |",
    ]
    for title, key in (
        ("splits", "by_split"),
        ("races", "by_race"),
        ("maps", "by_map"),
        ("outcomes", "by_outcome"),
        ("game versions", "by_game_version"),
    ):
        counts = ", ".join(f"{name}: {count:,}" for name, count in numbers[key].items())
        lines.append(f"| {title} | {counts} |")
    lines += ["", "## Arrays of a step", "", "| key | dtype | shape | meaning |"]
    lines.append("|---|---|---|---|")
    for key, spec in specs.episode_specs(content.settings).items():
        shape = "x".join(str(size) for size in spec.shape) or "scalar"
        lines.append(f"| `{key}` | {spec.dtype} | {shape} | {spec.meaning} |")
    lines += [
        "",
        "## Selection",
        "",
        "```json",
        json.dumps(content.selection, sort_keys=True, indent=1),
        "```",
        "",
        "`manifest.json` lists every file with its sha256; `starmill verify` checks them all.",
        "",
    ]
    return "\n".join(lines).encode()


def croissant(content: manifest.Manifest) -> bytes:
    """Returns Croissant 1.0 metadata: every file with its sha256, and the episode table."""
    files = [
        _file(entry.name, entry.size_bytes, entry.sha256) for entry in content.files
    ]
    files += [
        _file(entry.name, entry.size_bytes, entry.sha256) for entry in content.shards
    ]
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"episodes/{column.name}",
            "name": column.name,
            "dataType": _TYPES.get(
                column.type.value_type
                if pyarrow.types.is_list(column.type)
                else column.type
            ),
            **({"repeated": True} if pyarrow.types.is_list(column.type) else {}),
            "source": {
                "fileObject": {"@id": table.EPISODES},
                "extract": {"column": column.name},
            },
        }
        for column in table.EPISODE_SCHEMA
    ]
    document = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": content.name,
        "version": content.version,
        "description": (
            f"{content.episodes} episodes of StarCraft II by {content.engine}: "
            f"observations, actions and outcomes, {content.steps} steps."
        ),
        "license": _license(content.engine),
        "distribution": files,
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "episodes",
                "name": "episodes",
                "description": "One row per episode.",
                "field": fields,
            }
        ],
    }
    return (json.dumps(document, sort_keys=True, indent=1) + "\n").encode()


def _license(engine: str) -> str:
    """Returns the terms of the replays: Blizzard's for its ladder, ours for Skirmish."""
    if engine.startswith("skirmish"):
        return "https://www.apache.org/licenses/LICENSE-2.0"
    return "https://blzdistsc2-a.akamaihd.net/AI_AND_MACHINE_LEARNING_LICENSE.html"


def _file(name: str, size_bytes: int, sha256: str) -> dict[str, str]:
    kinds = {
        "parquet": "application/vnd.apache.parquet",
        "tfrecord": "application/octet-stream",
    }
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "contentSize": f"{size_bytes} B",
        "encodingFormat": kinds[name.rsplit(".", 1)[-1]],
        "sha256": sha256,
    }

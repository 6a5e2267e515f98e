"""What is written beside a dataset for people and catalogues: a card, and Croissant metadata.

In: a manifest without these two files. Out: `README.md` and `croissant.json`, as bytes that
depend on the manifest alone. Croissant is JSON-LD by MLCommons, which dataset searches read.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow

from starmill import version
from starmill.schema import manifest, specs, table

README, CROISSANT = "README.md", "croissant.json"
_TYPES = {
    pyarrow.string(): "sc:Text",
    pyarrow.int32(): "sc:Integer",
    pyarrow.int64(): "sc:Integer",
    pyarrow.float64(): "sc:Float",
}
# The context that Croissant 1.0 prescribes; a shorter one draws a warning from its validator.
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
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
# The terms under which Blizzard gives out replays, and the game for machine learning.
BLIZZARD_LICENSE = (
    "https://blzdistsc2-a.akamaihd.net/AI_AND_MACHINE_LEARNING_LICENSE.html"
)
# They begin an HTML element, a cell of a table, a link, code, or an escaped character.
_MARKUP = frozenset("<>&|[]`\\")
_CITATION = (
    "Mathieu et al., AlphaStar Unplugged: Large-Scale Offline Reinforcement Learning, 2023, "
    "arXiv:2308.03526"
)


def readme(content: manifest.Manifest) -> bytes:
    """Returns the dataset card."""
    numbers = content.statistics
    mmr: Mapping[str, Any] = numbers["mmr"]
    lines = [
        *_front_matter(content),
        f"# {content.name} {content.version}",
        "",
        f"{content.episodes:,} episodes (one player's side of a game each) of "
        f"{content.replays:,} {_game(content.engine)} replays, {content.steps:,} steps, "
        f"{content.size_bytes:,} bytes.",
        f"Played by: **{_plain(content.engine)}**. Made by starmill "
        f"{_plain(content.starmill)}.",
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
        counts = ", ".join(
            f"{_plain(name)}: {count:,}" for name, count in numbers[key].items()
        )
        lines.append(f"| {title} | {counts} |")
    lines += _increments(content)
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


def _plain(name: str) -> str:
    """Returns a name from a replay, escaped so that Markdown and HTML show it as text.

    Replays name their maps, and anyone can make a replay. Ordinary names stay as they are.
    """
    name = " ".join(name.split())
    return "".join(
        f"&#{ord(letter)};" if letter in _MARKUP else letter for letter in name
    )


def _increments(content: manifest.Manifest) -> list[str]:
    """Returns the section about what was added to the dataset; nothing if nothing was."""
    if not content.increments:
        return []
    lines = ["", "## Increments", "", "| | replays | episodes | replay set |"]
    lines.append("|---|---|---|---|")
    replays, episodes = content.counts("replays"), content.counts("episodes")
    sets = [content.replay_set, *(each.replay_set for each in content.increments)]
    for number, facts in enumerate(zip(replays, episodes, sets, strict=True)):
        name = f"increment {number}" if number else "base"
        lines.append(f"| {name} | {facts[0]:,} | {facts[1]:,} | `sha256:{facts[2]}` |")
    return lines


def _front_matter(content: manifest.Manifest) -> list[str]:
    """Returns the YAML header by which dataset hubs know the licence and the tables."""
    configs = []
    files: dict[str, list[str]] = {}
    for entry in content.files:
        if entry.name.endswith(".parquet"):
            name, _ = manifest.split_number(entry.name)
            files.setdefault(name, []).append(entry.name)
    for name, names in files.items():
        stem = name.removesuffix(".parquet")
        configs.append(f"- config_name: {stem}")
        if len(names) == 1:
            configs.append(f"  data_files: {name}")
        else:
            configs += ["  data_files:", *(f"  - {each}" for each in sorted(names))]
        configs += ["  default: true"] if name == table.EPISODES else []
    return [
        "---",
        f"pretty_name: {json.dumps(f'{content.name} {content.version}')}",
        f"license: {_license(content.engine).name}",
        f"license_link: {_license(content.engine).url}",
        "task_categories:",
        "- reinforcement-learning",
        "tags:",
        "- starcraft",
        "- offline-rl",
        "configs:",
        *configs,
        "---",
        "",
    ]


def croissant(content: manifest.Manifest) -> bytes:
    """Returns Croissant 1.0 metadata: every file with its sha256, and the episode table."""
    files = [
        _file(entry.name, entry.size_bytes, entry.sha256) for entry in content.files
    ]
    files += [
        _file(entry.name, entry.size_bytes, entry.sha256) for entry in content.shards
    ]
    document = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": content.name,
        "version": content.version,
        "description": (
            f"{content.episodes} {_game(content.engine)} episodes by {content.engine}: "
            f"observations, actions and outcomes, {content.steps} steps."
        ),
        "license": _license(content.engine).url,
        "citeAs": _CITATION,
        # The release's day, not the build's: equal builds have equal bytes.
        "datePublished": version.RELEASED,
        "distribution": files,
        "recordSet": [
            _record_set(entry.name, number)
            for number, entry in enumerate(content.tables(table.EPISODES))
        ],
    }
    return (json.dumps(document, sort_keys=True, indent=1) + "\n").encode()


def _record_set(file: str, increment: int) -> dict[str, Any]:
    """Returns the rows of a file of the episode table: the base's, or an increment's."""
    name = f"episodes_{increment:04d}" if increment else "episodes"
    of = f" of increment {increment}" if increment else ""
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{name}/{column.name}",
            "name": column.name,
            "dataType": _TYPES.get(
                column.type.value_type
                if pyarrow.types.is_list(column.type)
                else column.type
            ),
            **({"repeated": True} if pyarrow.types.is_list(column.type) else {}),
            "source": {
                "fileObject": {"@id": file},
                "extract": {"column": column.name},
            },
        }
        for column in table.EPISODE_SCHEMA
    ]
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": f"One row per episode{of}.",
        "field": fields,
    }


class _License(NamedTuple):
    """The terms of a dataset.

    Attributes:
        name: as dataset hubs call it.
        url: of the text.
    """

    name: str
    url: str


def _game(engine: str) -> str:
    """Returns the game's name: nobody may take the embedded game's data for the real one's."""
    return (
        "Skirmish (embedded game)" if engine.startswith("skirmish") else "StarCraft II"
    )


def _license(engine: str) -> _License:
    """Returns the terms of the replays: Blizzard's for its ladder, ours for Skirmish."""
    if engine.startswith("skirmish"):
        return _License("apache-2.0", "https://www.apache.org/licenses/LICENSE-2.0")
    return _License("other", BLIZZARD_LICENSE)


def _file(name: str, size_bytes: int, sha256: str) -> dict[str, str]:
    kinds = {
        "json": "application/json",
        "parquet": "application/x-parquet",
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

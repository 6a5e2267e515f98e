"""A dataset of twelve episodes that grew twice, and the same episodes in a whole dataset."""

from collections.abc import Sequence

from starmill.schema import assembly, codec, manifest, shards, table
from starmill.schema.episode import InMemoryEpisode
from tests.factories import datasets, records

# Episodes of the base, and of both increments.
PARTS = (6, 10, 12)


def write(folder: str, parts: Sequence[int] = PARTS) -> manifest.Manifest:
    """Writes the base with the first episodes, and an increment for each of the others."""
    episodes = datasets.episodes()
    content = records.dataset(folder, episodes[: parts[0]])
    for number in range(1, len(parts)):
        added = episodes[parts[number - 1] : parts[number]]
        content = add(folder, content, added, f"1.{number}.0")
    return content


def add(
    folder: str,
    base: manifest.Manifest,
    episodes: Sequence[InMemoryEpisode],
    version: str,
) -> manifest.Manifest:
    """Adds an increment of one shard for each split; one side more failed."""
    number = len(base.increments) + 1
    groups: dict[str, list[shards.EpisodeRecords]] = {}
    for item in episodes:
        split = {"0": "valid", "1": "test"}.get(item.meta.replay_id[0], "train")
        encoded = codec.encode(item.arrays, base.settings)
        groups.setdefault(split, []).append(
            shards.EpisodeRecords(meta=item.meta, records=encoded)
        )
    written = [
        shards.write_shard(
            folder,
            shards.shard_name(split, 0, 1, number),
            sorted(items, key=lambda item: item.meta.episode_id),
        )
        for split, items in sorted(groups.items())
    ]
    failure = table.QuarantineRow(
        replay_id=records.replay_id(100 + number),
        player_id=1,
        source="failed",
        reason="desync",
        detail="it ended early",
    )
    tables = assembly.write_tables(
        folder,
        [table.episode_table(row for _, rows in written for row in rows)],
        lambda: table.quarantine_table([failure]),
        lambda: table.unselected_table([]),
        number,
    )
    ids = {item.meta.replay_id for item in episodes} | {failure.replay_id}
    return assembly.grow(
        folder,
        base,
        version,
        manifest.replay_set_digest(ids),
        [entry for entry, _ in written],
        tables,
    )

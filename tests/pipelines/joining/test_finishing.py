"""Tables that workers merge: the same files as those made at once, and nothing is lost."""

import dataclasses

import pytest

from starmill.pipelines import plan
from starmill.pipelines.generate import check_summary
from starmill.pipelines.joining import finishing, joining
from starmill.schema import assembly, errors, shards, storage, table
from tests.factories import records
from tests.pipelines.test_work_folder import target

SHARDS = [shards.shard_name("train", number, 130) for number in (0, 1, 128, 129)]


def results(folder) -> dict[str, joining.ShardResult]:
    """Writes the results of four shards; the last one has failures alone."""
    out = {}
    for seed, name in enumerate(SHARDS):
        placed = [
            shards.Placed(
                meta=records.episode_meta(seed, player_id=player),
                split="train",
                shard=name,
                offsets=(0 if player == 1 else 50, 50 * player),
                sha256="0" * 64,
            )
            for player in (1, 2)
        ]
        if seed == 3:
            placed = []
        entry = shards.ShardEntry(
            name=name,
            split="train",
            episodes=2,
            steps=9,
            size_bytes=99,
            sha256="0" * 64,
        )
        replay_id = records.replay_id(9 - seed)
        failed = table.QuarantineRow(
            replay_id=replay_id, player_id=1, source="x", reason="desync", detail="y"
        )
        left_out = table.UnselectedRow(
            replay_id=replay_id, player_id=2, source="x", reason="mmr"
        )
        out[name] = joining.ShardResult(
            entry if placed else None, table.episode_table(placed), [failed], [left_out]
        )
        data = joining.to_bytes(out[name], "inputs")
        storage.write(folder.shard_result(name), data)
    return out


def finished(tmp_path):
    where = target(str(tmp_path / "work"))
    result = results(where)
    groups: dict[str, list[str]] = {}
    for name in SHARDS[::-1]:
        groups.setdefault(finishing.group_of(name), []).append(name)
    for group, names in groups.items():
        finishing.merge(where, group, [*names, names[0]])  # a runner may repeat
    finishing.finish(where, [*groups, *groups])
    return where, result, finishing.read_summary(where)


def test_merged_tables_are_those_made_at_once(tmp_path):
    where, results, summary = finished(tmp_path)
    assert {finishing.group_of(name) for name in SHARDS} == {
        "train-00000",
        "train-00001",
    }
    quarantine = [row for result in results.values() for row in result.quarantine]
    unselected = [row for result in results.values() for row in result.unselected]
    episodes = [results[name].episodes for name in SHARDS]
    expected = {
        table.EPISODES: assembly.write_pieces(
            str(tmp_path / "a"), table.EPISODE_SCHEMA, episodes
        ),
        table.QUARANTINE: table.write_table(
            str(tmp_path / "b"), table.quarantine_table(quarantine)
        ),
        table.UNSELECTED: table.write_table(
            str(tmp_path / "c"), table.unselected_table(unselected)
        ),
    }
    assert {
        entry.name: storage.Written(entry.size_bytes, entry.sha256)
        for entry in summary.tables.files
    } == expected
    for name, written in expected.items():
        assert storage.digest(where.output, name) == written
    assert list(summary.names) == SHARDS
    assert [entry.name for entry in summary.entries] == SHARDS[:3]
    assert (summary.failed, summary.unselected) == ({"desync": 4}, 4)
    assert list(summary.examples) == sorted(quarantine, key=lambda row: row.replay_id)
    assert (summary.tables.episodes, summary.tables.replays) == (6, 3)


def test_a_missing_result_is_an_error(tmp_path):
    where = target(str(tmp_path / "work"))
    results(where)
    storage.delete(where.shard_result(SHARDS[1]))
    with pytest.raises(errors.FormatError, match="missing or damaged; run"):
        finishing.merge(where, "train-00000", SHARDS[:2])


def test_what_the_summary_lacks_is_an_error(tmp_path):
    _, _, summary = finished(tmp_path)
    planned = plan.BuildPlan(
        read=8, selected=7, rejected={}, sides=10, unselected={"mmr": 4}, loops=1,
        replay_set="", shard_counts={}, replays_by_shard=dict.fromkeys(SHARDS, 2),
        engine="skirmish", reused=0, files=1, packets=4, digest="0" * 16,
    )  # fmt: skip
    check_summary(planned, summary)
    more = shards.shard_name("train", 7, 130)
    for changes, error, said in (
        ({"sides": 11}, errors.SpecError, "failures: expected 11, found 10"),
        ({"unselected": {}}, errors.SpecError, "leaves out: expected 0, found 4"),
        (
            {"replays_by_shard": dict.fromkeys([*SHARDS, more], 2)},
            errors.FormatError,
            "not finished: .*00007-of",
        ),
    ):
        with pytest.raises(error, match=said):
            check_summary(dataclasses.replace(planned, **changes), summary)

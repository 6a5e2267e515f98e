"""The first pass: ids as bytes, versions in order, and duplicates."""

import random

import pytest

from starmill.pipelines.planning import candidates
from starmill.schema import errors, manifest, replay_index, selection
from tests.pipelines.test_plan import row, write_index

RULES = selection.PRESETS["skirmish"]


def judged(tmp_path, rows) -> candidates.Judged:
    url = write_index(str(tmp_path / "x.index"), rows)
    with replay_index.opened(url) as index:
        return candidates.judge(index, RULES)


def test_versions_are_numbered_in_their_order_with_unknown_ones_last(tmp_path):
    versions = [(2, "b"), (10, "a"), (2, None), (None, "a"), (2, "a"), (10, "a")]
    rows = [
        row(n + 1, base_build=build, data_version=data)
        for n, (build, data) in enumerate(versions)
    ]
    assert judged(tmp_path, rows).selected.versions.tolist() == [1, 3, 2, 4, 0, 3]


def test_the_digest_is_that_of_all_replays_each_once(tmp_path, monkeypatch):
    monkeypatch.setattr(candidates, "_DIGEST_IDS", 7)
    dice = random.Random(5)
    ids = [dice.randbytes(32).hex() for _ in range(40)] + ["00" * 32, "ff" * 32]
    rows = [row(n, replay_id=id_) for n, id_ in enumerate([*ids, *ids[:9]])]
    rows += [row(99, replay_id="", status="unreadable")]
    result = judged(tmp_path, rows)
    assert result.replay_set == manifest.replay_set_digest(set(ids))
    assert result.rejected == {"duplicate": 9, "unreadable": 1}
    assert sorted(id_.ljust(32, b"\0").hex() for id_ in result.selected.ids) == sorted(
        ids
    )


def test_an_id_that_is_no_hash_is_an_error(tmp_path):
    with pytest.raises(errors.FormatError, match="replay_id: expected a sha256 in hex"):
        judged(tmp_path, [row(1, replay_id="game1")])

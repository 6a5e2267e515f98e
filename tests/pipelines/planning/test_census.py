"""The census of an index, against one counted by hand."""

from starmill.pipelines.planning import census
from starmill.schema import replay_index
from starmill.schema.selection import Selection
from tests.pipelines.test_plan import row

RULES = Selection(name="test", engine="skirmish", min_mmr=3500)


def take(rows) -> census.Census:
    return census.take(replay_index.table_from_rows(rows).to_batches(), RULES)


def counted() -> census.Census:
    rows = [row(0), row(300, game_version="4.10.0.1"), row(2, ladder=False)]
    rows += [row(3, engine="sc2"), row(4, status="corrupt", detail="x")]
    return take(rows)


def test_rows_are_kept_or_counted_by_reason():
    counts = counted()
    assert (counts.replays, counts.kept_replays, counts.kept_episodes) == (5, 3, 3)
    assert counts.reasons == {"engine": 1, "corrupt": 1}
    assert counts.replays == counts.kept_replays + sum(counts.reasons.values())


def test_races_results_and_mmr_are_of_the_kept_sides():
    counts = counted()
    assert counts.races == {"terran": 3}
    assert counts.outcomes == {"Win": 3}
    assert counts.mmr == {4000: 2, 4250: 1}
    assert sum(counts.splits.values()) == 3


def test_versions_are_sorted_as_numbers():
    content = counted().to_json()
    assert content["versions"] == {
        "4.9.2": {"replays": 4, "kept": 2},
        "4.10.0": {"replays": 1, "kept": 1},
    }
    assert list(content["versions"]) == ["4.9.2", "4.10.0"]


def test_bands_have_no_gaps():
    rows = [row(0), row(800)]
    content = take(rows).to_json()
    assert [band["episodes"] for band in content["mmr"]] == [1, 0, 0, 1]
    assert content["mmr_unknown"] == 0


def test_the_text_has_a_bar_for_each_count():
    lines = census.text(counted()).splitlines()
    assert lines[0] == "3 of 5 replays kept, 3 episodes"
    bars = {line.split()[0]: line.count("#") for line in lines if "#" in line}
    assert bars["4000-4249"] == 40 and bars["4250-4499"] == 20

"""Judging by columns, compared with the rules for single rows on random rows and selections."""

import dataclasses
import random

import pytest

from starmill.pipelines.planning import judgements
from starmill.schema import replay_index, selection
from starmill.schema.reasons import MmrSource, RejectReason
from starmill.schema.replay_row import PlayerRow, ReplayRow

_STATUSES = ["ok"] * 12 + [
    "corrupt", "unreadable", "no_protocol", "bad_details", "bad_events", "no_events",
]  # fmt: skip


def random_player(dice: random.Random) -> PlayerRow:
    return PlayerRow(
        player_id=dice.choice([1, 2, None]),
        race=dice.choice(["Terr", "Zerg", "Prot", "Rand", None, "Xxxx"]),
        mmr=dice.choice([None, 3000, 3500, 3501, 6000]),
        mmr_source=dice.choice([None, *MmrSource]),
        result=dice.choice(["Win", "Loss", "Tie", "Undecided", None, "Win", "Loss"]),
    )


def random_row(dice: random.Random, number: int) -> ReplayRow:
    return ReplayRow(
        replay_id=f"{number:064x}",
        file_stem=f"stem{number}",
        source="x",
        size_bytes=1,
        status=dice.choice(_STATUSES),
        engine=dice.choice(["sc2"] * 5 + ["skirmish", None]),
        game_version=dice.choice(["4.8.2.1", "4.9.2.7", "4.10.0.3", "4.7.9.1", None]),
        map_name=dice.choice(["Acropolis LE", "Acropolis", "Triton LE", None]),
        duration_loops=dice.choice([None, 10, 500, 5000]),
        ladder=dice.choice([True, True, True, False, None]),
        human_players=dice.choice([2, 2, 2, 4, None]),
        players_listed=dice.choice([2, 2, 2, 1, None]),
        players=(random_player(dice), random_player(dice)),
    )


def random_rules(dice: random.Random, rows: list[ReplayRow]) -> selection.Selection:
    def names(share: float) -> frozenset[str]:
        return frozenset(
            dice.choice([row.replay_id, row.file_stem])
            for row in rows
            if dice.random() < share
        )

    listed = names(0.8)
    return selection.Selection(
        engine=dice.choice([None, "sc2", "skirmish"]),
        min_version=dice.choice([None, "4.8.2"]),
        max_version=dice.choice([None, "4.9", "4.9.2"]),
        ladder=dice.random() < 0.3,
        two_humans=dice.random() < 0.3,
        min_mmr=dice.choice([None, 3500]),
        mmr_scope=dice.choice(["own", "both"]),
        mmr_source=dice.choice(["any", "metadata"]),
        maps=dice.choice([(), ("Acropolis",)]),
        races=dice.choice([(), ("terran", "zerg")]),
        outcomes=dice.choice([(), ("Win",), ("Win", "Loss", "Tie")]),
        min_loops=dice.choice([0, 100]),
        include=dice.choice([frozenset(), names(0.7)]),
        exclude=dice.choice([frozenset(), names(0.1)]),
        splits=dice.choice([{}, {"train": listed, "test": names(0.2) - listed}]),
    )


@pytest.mark.parametrize("seed", range(40))
def test_all_rows_are_judged_as_single_ones_are(seed):
    dice = random.Random(seed)
    rows = [random_row(dice, number) for number in range(300)]
    rules = random_rules(dice, rows)
    (batch,) = replay_index.table_from_rows(rows).to_batches()
    judged = judgements.judge(batch, rules)
    splits = judgements.splits(batch, rules)

    def reason(code) -> RejectReason | None:
        return None if code == judgements.KEPT else judgements.REASONS[code]

    for place, row in enumerate(rows):
        expected = selection.judge(row, rules)
        assert reason(judged.replays[place]) == expected.reason, row
        for side in (1, 2):
            result = reason(judged.sides[side - 1, place])
            assert result == expected.unselected.get(side), row
        assert splits[place] == expected.split


def test_every_rule_is_among_the_random_ones():
    seen = set()
    for seed in range(40):
        dice = random.Random(seed)
        rows = [random_row(dice, number) for number in range(300)]
        rules = random_rules(dice, rows)
        seen |= {selection.judge(row, rules).reason for row in rows}
    rules_of_a_selection = list(RejectReason)[list(RejectReason).index("excluded") :]
    wanted = {r for r in rules_of_a_selection if r < "duplicate" or r.name.isupper()}
    wanted = set(rules_of_a_selection[: rules_of_a_selection.index("duplicate")])
    assert wanted <= seen


def test_no_rows_are_no_judgements():
    (batch,) = replay_index.table_from_rows(
        [random_row(random.Random(1), 1)]
    ).to_batches()
    none = judgements.judge(batch.slice(0, 0), selection.PRESETS["unplugged"])
    assert none.replays.shape == (0,) and none.sides.shape == (2, 0)
    assert dataclasses.asdict(selection.PRESETS["unplugged"])

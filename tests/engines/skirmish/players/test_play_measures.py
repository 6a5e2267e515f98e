"""The measurements of play, and what they say of a handful of ladder games."""

import pytest

from starmill.engines.skirmish import ladder, versions
from starmill.engines.skirmish.players import bots, play_measures
from starmill.engines.skirmish.players.play_measures import Attack, Bank, Play
from starmill.engines.skirmish.simulation import maps, rules
from starmill.engines.skirmish.simulation.game import (
    CameraMove,
    Game,
    Leave,
    PlayerSetup,
    Select,
    UnitCommand,
)
from tests.factories import arena

ATTACK, GATHER = 3674, 3666


class Scripted:
    """A player that gives inputs on given loops."""

    def __init__(self, inputs):
        self._inputs = inputs

    @property
    def next_loop(self):
        return min(self._inputs, default=10**9)

    def act(self, game, player):
        return self._inputs.pop(game.loop, [])


def _measured(inputs, *, roaches=0, loops=1500):
    game = arena.new_game(home=2, away=1)
    x, y = arena.OPEN
    rows = [arena.put(game, "Roach", 1, x + i, y) for i in range(roaches)]
    tags = tuple(arena.tag(game, row) for row in rows)
    script = {loop: make(tags) for loop, make in inputs.items()}
    plays = play_measures.measured_match(
        game, [Scripted(script), Scripted({})], max_loops=loops
    )
    return plays[0], game


def test_a_step_is_a_loop_with_a_command_or_the_last_of_cameras_in_a_row():
    drone = rules.ability_id("Train_Drone")
    script = {
        10: lambda tags: [CameraMove(1, 40.0, 40.0)],
        12: lambda tags: [CameraMove(1, 50.0, 40.0)],
        14: lambda tags: [Select(1, tags), UnitCommand(1, drone, tags)],
        16: lambda tags: [CameraMove(1, 60.0, 40.0)],
        20: lambda tags: [UnitCommand(1, GATHER, tags), UnitCommand(1, GATHER, tags)],
        1350: lambda tags: [],
    }
    play, _ = _measured(script)
    assert play.steps == {"camera": 2, "train": 1, "gather": 1}
    assert play.result == "tie"
    assert play.loops == 1500
    assert list(play.banks) == [1]
    assert play.banks[1].workers == 12


def test_an_attack_has_its_size_its_way_and_its_middle():
    far = (100.0, 30.0)
    script = {
        5: lambda tags: [UnitCommand(1, ATTACK, tags[:3], target_point=far)],
        9: lambda tags: [UnitCommand(1, ATTACK, tags, target_point=(61.5, 60.0))],
    }
    play, game = _measured(script, roaches=4, loops=20)
    first, second = play.attacks
    home = game.map.starts[0]
    gap = ((home[0] - far[0]) ** 2 + (home[1] - far[1]) ** 2) ** 0.5
    assert (first.loop, first.units, first.share) == (5, 3, 0.75)
    assert first.gap == pytest.approx(gap)
    assert not first.is_regroup
    assert (second.units, second.share, second.is_regroup) == (4, 1.0, True)


def test_a_summary_is_the_arithmetic_of_its_plays():
    plays = [
        Play(
            attacks=[
                Attack(1344 * 5, 10, 0.5, 60.0, False),
                Attack(1, 2, 0.1, 3.0, False),
            ],
            banks={1: Bank(100, 20, 15.0, 2.0, 13)},
            result="win",
            loops=13440,
        ),
        Play(
            attacks=[Attack(1344 * 9, 20, 1.0, 80.0, True)],
            banks={1: Bank(300, 40, 17.0, 4.0, 13), 2: Bank(0, 0, 20.0, 6.0, 16)},
            result="tie",
            loops=26880,
        ),
    ]
    plays[0].steps.update({"train": 30, "camera": 10})
    plays[1].steps.update({"build": 10, "attack": 50})
    numbers = play_measures.summary(plays)
    assert (numbers.plays, numbers.steps) == (2, 50.0)
    assert numbers.step_loops == 403.2
    assert numbers.decisions == 0.4
    assert list(numbers.shares.items())[0] == ("attack", 0.5)
    assert (numbers.attack_units, numbers.attack_share) == (15, 0.75)
    assert (numbers.far, numbers.regroups) == (pytest.approx(2 / 3), 0.5)
    assert (numbers.first_attack, numbers.minutes, numbers.draws) == (7, 15, 0.5)
    assert numbers.banks[1] == (200, 30, 16, 3, 13)
    assert numbers.banks[2] == (0, 0, 20, 6, 16)


def test_a_player_who_leaves_has_lost():
    play, _ = _measured({30: lambda tags: [Leave(1)]})
    assert (play.result, play.loops) == ("loss", 30)


# Six games of a ladder


@pytest.fixture(scope="module")
def plays():
    """The plays of six ladder games: winners first, then losers."""
    winners, losers = [], []
    for index in range(6):
        match = ladder.pairing(11, index, versions.VERSIONS, (4500, 7000))
        races = [1 + (index + side) % 3 for side in (0, 1)]
        setups = [
            PlayerSetup(race_requested=race, race=race, start=side)
            for side, race in enumerate(races)
        ]
        players = [
            bots.human(mmr, race, index * 2 + side, opponent_mmr=match.mmrs[1 - side])
            for side, (mmr, race) in enumerate(zip(match.mmrs, races, strict=True))
        ]
        game = Game(maps.MAPS[match.map_name], (setups[0], setups[1]), index)
        for play in play_measures.measured_match(game, players):
            (winners if play.result == "win" else losers).append(play)
    return winners, losers


def test_games_are_decided(plays):
    winners, losers = plays
    assert [play.result for play in winners] == ["win"] * 6
    assert [play.result for play in losers] == ["loss"] * 6


def test_a_quarter_of_the_steps_are_decisions_and_few_are_habits(plays):
    numbers = play_measures.summary([*plays[0], *plays[1]])
    assert numbers.decisions > 0.28
    assert 150 < numbers.steps < 600
    shares = numbers.shares
    assert 0.01 < shares["camera"] < 0.12
    assert shares["gather"] < 0.2
    assert shares.get("move", 0) + shares.get("smart", 0) + shares["rally"] < 0.2


def test_whole_armies_attack_the_enemy_and_not_their_own_middle(plays):
    numbers = play_measures.summary(plays[0])
    assert numbers.far > 0.4
    assert numbers.attack_units >= 8
    assert numbers.attack_share > 0.8
    assert numbers.regroups < 0.1
    assert 3 < numbers.first_attack < 10


def test_what_is_earned_is_spent_and_gas_too(plays):
    banks = play_measures.summary([*plays[0], *plays[1]]).banks
    for minute in (5, 8):
        minerals, vespene, *_ = banks[minute]
        assert minerals < 1000
        assert vespene < 500


def test_winners_play_better_than_losers(plays):
    winners, losers = (play_measures.summary(side).banks for side in plays)
    assert winners[8][2] > 1.15 * losers[8][2]  # supply
    assert winners[8][3] > 1.15 * losers[8][3]  # of the army

"""The score: the real game's at the start, and books that balance over whole games."""

import numpy as np
import pytest

from starmill.converters.protos import sc2api_pb2, score_pb2
from starmill.engines.skirmish.observation import score_message
from starmill.engines.skirmish.players import bots
from starmill.engines.skirmish.simulation import maps, rules
from starmill.engines.skirmish.simulation.debug.cheats import CREATE, KILL, Cheat
from starmill.engines.skirmish.simulation.game import Game, PlayerSetup
from tests.factories import arena

CATEGORIES = ("none", "army", "economy", "technology", "upgrade")
X, Y = arena.OPEN


def _sum(details: score_pb2.ScoreDetails, name: str) -> float:
    """Returns minerals and vespene of all categories."""
    return sum(
        getattr(getattr(details, f"{name}_{resource}"), category)
        for resource in ("minerals", "vespene")
        for category in CATEGORIES
    )


def test_at_the_start_it_is_the_real_games(shared) -> None:
    case = np.load(shared / "golden/real/inputs/start_AcropolisLE.npz")
    end = case["player_offsets"][1]
    real = sc2api_pb2.ResponseObservation.FromString(case["player"][:end].tobytes())
    assert score_message.score(arena.new_game(), 1) == real.observation.score


@pytest.fixture(scope="module", params=[(1, 2), (3, 2), (2, 3), (1, 3)])
def game(request) -> Game:
    """A game of nine minutes between two computers of the hardest honest level."""
    setups = tuple(
        PlayerSetup(race_requested=race, race=race, start=index)
        for index, race in enumerate(request.param)
    )
    played = Game(maps.MAPS["Amber Basin"], (setups[0], setups[1]), 7)
    players = [bots.computer(6, race, 7, 1) for race in request.param]
    while played.loop < 12_000 and played.result is None:
        given = [i for n, bot in enumerate(players, 1) for i in bot.act(played, n)]
        played.step(given)
        played.take_events()
        played.take_errors()
    return played


def test_the_books_of_a_whole_game_balance(game: Game) -> None:
    scores = {p: score_message.score(game, p).score_details for p in (1, 2)}
    for player, details in scores.items():
        state = game.world.players[player]
        assert 50 + details.collected_minerals == (
            details.spent_minerals + state["minerals"]
        )
        assert details.collected_vespene == details.spent_vespene + state["vespene"]
        # What was spent exists, or is lost, or (Terran only) went into repairs.
        hall = 350 if state["race"] == 2 else 400
        start = hall + 12 * 50 + (100 if state["race"] == 2 else 0)
        spent = details.spent_minerals + details.spent_vespene
        rest = start + spent - _sum(details, "used") - _sum(details, "lost")
        assert 0 <= rest <= (100 if state["race"] == 1 else 0)
        assert _sum(details, "killed") == _sum(scores[3 - player], "lost") - (
            _sum_not_killed(game, 3 - player)
        )
        assert _sum(details, "killed") == (
            details.killed_value_units + details.killed_value_structures
        )
        dealt, taken = details.total_damage_dealt, scores[3 - player].total_damage_taken
        assert (dealt.life, dealt.shields) == (taken.life, taken.shields)
        assert dealt.life > 1000
    assert {p: scores[p].collected_minerals > 5000 for p in (1, 2)} == {
        1: True,
        2: True,
    }


def _sum_not_killed(game: Game, player: int) -> int:
    """Returns the value of what a player lost without the enemy: cancelled, or used up."""
    lost = game.world.players[player]["lost_value"].sum()
    return int(lost - game.world.players[3 - player]["killed_value"].sum())


def test_the_score_is_what_the_player_has(game: Game) -> None:
    for player in (1, 2):
        score = score_message.score(game, player)
        state = game.world.players[player]
        unspent = int(state["minerals"]) + int(state["vespene"])
        assert score.score == _sum(score.score_details, "used") + unspent
        food = score.score_details.food_used
        living = sum(getattr(food, category) for category in CATEGORIES)
        # The player's food also counts what is being made.
        assert food.army <= state["food_army_halves"] / 2
        assert 0 < living <= state["food_used_halves"] / 2


def test_idle_workers_and_buildings_are_timed_in_seconds_of_normal_speed() -> None:
    game = arena.new_game()
    workers = arena.rows_of(game, "SCV", 1)
    arena.command(game, 1, "Stop_Stop", list(workers[:4]))
    game.advance(15)
    details = score_message.score(game, 1).score_details
    assert details.idle_worker_time == 4.0  # four workers for sixteen loops
    assert details.idle_production_time == 1.0  # the command center


def test_deaths_are_counted_by_category() -> None:
    game = arena.new_game(home=1, away=2)
    units = (("Marine", 2), ("Barracks", 1), ("SCV", 1), ("SupplyDepot", 1))
    for index, (kind, count) in enumerate(units):
        place = (X + 4.0 * index, Y)
        game.step([Cheat(1, CREATE, (rules.unit_id(kind), 1, *place, count))])
        rows = arena.rows_of(game, kind, 1)[-count:]
        tags = tuple(arena.tag(game, row) for row in rows)
        game.step([Cheat(1, KILL, tags)])
    lost = score_message.score(game, 1).score_details.lost_minerals
    assert (lost.army, lost.technology, lost.economy) == (100.0, 150.0, 150.0)
    details = score_message.score(game, 2).score_details
    assert (details.killed_value_units, details.killed_value_structures) == (150, 250)


def test_collection_rates_are_per_minute() -> None:
    game = arena.new_game()
    game.advance(1600)
    details = score_message.score(game, 1).score_details
    per_minute = details.collected_minerals / (1600 / 1344)
    assert details.collection_rate_minerals == pytest.approx(per_minute, rel=0.3)

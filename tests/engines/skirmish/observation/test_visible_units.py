"""Which units a view lists, by what the client asked for; vision itself is tested there."""

import numpy as np
import pytest

from starmill.engines.skirmish.observation import visible_units
from tests.factories import arena

X, Y = arena.OPEN


def _listed(game, row, **options):
    return row in visible_units.player_view(game, 1, **options).rows


@pytest.fixture
def hidden_enemies():
    """Returns a game in which the player stands beside a cloaked and a burrowed enemy."""
    game = arena.new_game(home=1, away=3)
    arena.put(game, "Marine", 1, X, Y)
    templar = arena.put(game, "DarkTemplar", 2, X + 3, Y)
    roach = arena.put(game, "RoachBurrowed", 2, X, Y + 3)
    arena.look(game)
    return game, templar, roach


@pytest.mark.parametrize("cloaked", [True, False])
@pytest.mark.parametrize("burrowed", [True, False])
def test_hidden_enemies_are_listed_if_asked_for(hidden_enemies, cloaked, burrowed):
    game, templar, roach = hidden_enemies
    options = {"show_cloaked": cloaked, "show_burrowed": burrowed}
    assert _listed(game, templar, **options) is cloaked
    assert _listed(game, roach, **options) is burrowed


def test_without_fog_everything_alive_is_visible_and_nothing_remembered():
    game = arena.new_game()
    view = visible_units.player_view(game, 1, disable_fog=True)
    alive = np.flatnonzero(game.world.units["alive"] == 1)
    np.testing.assert_array_equal(view.rows, alive)
    assert set(view.display) == {visible_units.DISPLAY_VISIBLE}
    foggy = visible_units.player_view(game, 1)
    assert visible_units.DISPLAY_SNAPSHOT in foggy.display


def test_alliances_follow_from_the_owners():
    game = arena.new_game()
    for player in (1, 2):
        view = visible_units.player_view(game, player, disable_fog=True)
        expected = {player: 1, 3 - player: 4, 16: 3}
        owners = view.units["owner"]
        assert [expected[int(owner)] for owner in owners] == list(view.alliance)


def test_passengers_are_not_listed():
    game = arena.new_game()
    medivac = arena.put(game, "Medivac", 1, X, Y)
    marine = arena.put(game, "Marine", 1, X + 1, Y)
    arena.command(game, 1, "Load_Medivac", [medivac], target=marine)
    game.advance(30)
    assert _listed(game, medivac) and not _listed(game, marine)


def test_placeholders_are_listed_if_asked_for():
    game = arena.new_game()
    arena.rich(game, 1)
    worker = arena.rows_of(game, "SCV", 1)[0]
    x, y = game.map.starts[0]
    arena.command(game, 1, "Build_SupplyDepot", [worker], point=(x + 9, y))
    for shown in (True, False):
        view = visible_units.player_view(game, 1, show_placeholders=shown)
        assert (visible_units.DISPLAY_PLACEHOLDER in view.display) is shown

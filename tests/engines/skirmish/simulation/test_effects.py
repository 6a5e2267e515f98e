"""Regeneration, energy, spells and what ends them, in numbers of the game."""

import pytest

from tests.factories import arena

X, Y = arena.OPEN


def test_energy_regenerates_and_stops_at_its_maximum() -> None:
    game = arena.new_game()
    raven = arena.put(game, "Raven", 1, X, Y)
    game.world.units["energy"][raven] = 50.0
    game.advance(224)  # ten seconds
    assert arena.unit(game, raven, "energy") == pytest.approx(50 + 7.875, abs=0.01)
    game.world.units["energy"][raven] = 199.99
    game.advance(10)
    assert arena.unit(game, raven, "energy") == 200.0


def test_shields_wait_ten_seconds_and_then_regenerate() -> None:
    game = arena.new_game(home=3)
    zealot = arena.put(game, "Zealot", 1, X, Y)
    game.world.units["shield"][zealot] = 10.0
    game.world.units["hurt_loop"][zealot] = game.loop
    game.advance(225)
    assert arena.unit(game, zealot, "shield") == 10.0
    game.advance(224)
    assert arena.unit(game, zealot, "shield") == pytest.approx(30.0, abs=0.2)


def test_only_the_zerg_heal_by_themselves_and_faster_when_burrowed() -> None:
    game = arena.new_game(home=2, away=1)
    rows = [
        arena.put(game, kind, player, X + 3 * k, Y + 20 * (player - 1))
        for k, (kind, player) in enumerate(
            (("Roach", 1), ("RoachBurrowed", 1), ("Marauder", 2))
        )
    ]
    game.world.units["health"][rows] = 50.0
    game.advance(224)
    gains = [arena.unit(game, row, "health") - 50.0 for row in rows]
    assert gains == pytest.approx([3.8, 8 * 3.8, 0.0], abs=0.05)


def test_a_cloak_ends_with_the_energy() -> None:
    game = arena.new_game()
    game.world.upgrades[1, 20] = 1
    banshee = arena.put(game, "Banshee", 1, X, Y)
    game.world.units["energy"][banshee] = 30.0
    arena.command(game, 1, "Behavior_CloakOn_Banshee", [banshee])
    assert arena.unit(game, banshee, "cloaked") == 1
    loops = 1
    while arena.unit(game, banshee, "cloaked"):
        game.advance(1)
        loops += 1
    assert loops == pytest.approx(5.0 / (1.26 / 22.4), abs=2)
    assert arena.unit(game, banshee, "energy") < 0.1
    assert arena.unit(game, banshee, "buff_count") == 0


def test_a_mule_mines_for_64_seconds_and_is_gone() -> None:
    game = arena.new_game()
    orbital = arena.put(game, "OrbitalCommand", 1, X + 0.5, Y + 0.5)
    game.world.units["energy"][orbital] = 50.0
    field = next(
        row
        for row in range(200)
        if arena.unit(game, row, "minerals") == 1800
        and abs(arena.unit(game, row, "x") - game.map.starts[0][0]) < 12
        and abs(arena.unit(game, row, "y") - game.map.starts[0][1]) < 12
    )
    arena.command(game, 1, "Effect_CalldownMULE", [orbital], target=field)
    game.advance(2)
    (mule,) = arena.rows_of(game, "MULE", 1)
    tag = arena.tag(game, mule)
    game.advance(1420)
    assert len(game.rows_of([tag])) == 1
    game.advance(20)
    assert len(game.rows_of([tag])) == 0
    assert arena.rows_of(game, "MULE", 1) == []


def test_feedback_burns_half_the_energy_and_ignores_armour() -> None:
    game = arena.new_game(home=3, away=1)
    templar = arena.put(game, "HighTemplar", 1, X, Y)
    game.world.units["energy"][templar] = 60.0
    raven = arena.put(game, "Raven", 2, X + 4, Y)
    game.world.units["energy"][raven] = 100.0
    health = arena.unit(game, raven, "health")
    arena.look(game)
    arena.command(game, 1, "Effect_Feedback", [templar], target=raven)
    assert arena.unit(game, raven, "health") == pytest.approx(health - 50, abs=0.1)
    assert arena.unit(game, raven, "energy") < 0.1
    assert arena.unit(game, templar, "energy") == pytest.approx(10, abs=0.1)


def test_a_blink_goes_eight_cells_and_only_into_sight() -> None:
    game = arena.new_game(home=3)
    game.world.upgrades[1, 87] = 1
    stalker = arena.put(game, "Stalker", 1, X, Y)
    arena.look(game)
    arena.command(game, 1, "Effect_Blink_Stalker", [stalker], point=(X + 20, Y))
    assert arena.unit(game, stalker, "x") == pytest.approx(X + 8, abs=0.01)
    second = arena.put(game, "Stalker", 1, X, Y + 3)
    game.world.visibility[1] = 1
    arena.command(game, 1, "Effect_Blink_Stalker", [second], point=(X + 20, Y + 3))
    assert arena.unit(game, second, "x") == pytest.approx(X, abs=0.2)


def test_a_medivac_heals_and_pays_with_energy() -> None:
    game = arena.new_game()
    medivac = arena.put(game, "Medivac", 1, X, Y)
    marine = arena.put(game, "Marine", 1, X + 1, Y)
    hellion = arena.put(game, "Hellion", 1, X - 1, Y)
    game.world.units["energy"][medivac] = 100.0
    game.world.units["health"][[marine, hellion]] = 20.0
    game.advance(60)
    assert arena.unit(game, marine, "health") == 45.0
    assert arena.unit(game, hellion, "health") == 20.0  # not biological
    spent = 100.0 + 60 * 0.7875 / 22.4 - arena.unit(game, medivac, "energy")
    assert spent == pytest.approx(25 / 3, abs=0.3)


def test_a_phoenix_holds_a_unit_up_until_it_does_something_else() -> None:
    game = arena.new_game(home=3, away=3)
    phoenix = arena.put(game, "Phoenix", 1, X, Y)
    stalker = arena.put(game, "Stalker", 2, X + 3, Y)
    arena.look(game)
    arena.command(game, 1, "Effect_GravitonBeam", [phoenix], target=stalker)
    game.advance(30)
    assert game.world.buffs["id"][stalker, 0] == 5
    assert arena.unit(game, stalker, "flying") == 1
    assert arena.unit(game, phoenix, "energy") == pytest.approx(1.1, abs=0.1)
    # It can neither move nor shoot.
    arena.command(game, 2, "Move_Move", [stalker], point=(X + 9, Y))
    game.advance(20)
    assert arena.unit(game, stalker, "x") == X + 3
    arena.command(game, 1, "Move_Move", [phoenix], point=(X - 4, Y))
    game.advance(2)
    assert arena.unit(game, stalker, "buff_count") == 0
    assert arena.unit(game, stalker, "flying") == 0


def test_the_beam_ends_after_ten_seconds() -> None:
    game = arena.new_game(home=3, away=3)
    phoenix = arena.put(game, "Phoenix", 1, X, Y)
    stalker = arena.put(game, "Stalker", 2, X + 3, Y)
    arena.look(game)
    arena.command(game, 1, "Effect_GravitonBeam", [phoenix], target=stalker)
    game.advance(222)
    assert arena.unit(game, stalker, "flying") == 1
    game.advance(4)
    assert arena.unit(game, stalker, "flying") == 0
    assert arena.unit(game, phoenix, "order_count") == 0


@pytest.mark.parametrize("kind", ["Colossus", "Phoenix", "Pylon"])
def test_what_the_beam_cannot_hold(kind: str) -> None:
    game = arena.new_game(home=3, away=3)
    phoenix = arena.put(game, "Phoenix", 1, X, Y)
    target = arena.put(game, kind, 2, X + 3, Y)
    arena.look(game)
    arena.command(game, 1, "Effect_GravitonBeam", [phoenix], target=target)
    assert [error.code for error in game.take_errors()] == [36]

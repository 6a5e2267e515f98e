import numpy as np
import pytest

from tests.factories import arena

X, Y = arena.OPEN


def _duel(attacker: str, victim: str, loops: int = 2, gap: float = 1.0) -> float:
    """Returns what one attack takes from health and shield together."""
    game = arena.new_game(home=1, away=3)
    first = arena.put(game, attacker, 1, X + 8, Y)
    second = arena.put(game, victim, 2, X + 8 + gap, Y)
    game.world.units["cooldown"][second] = 1000
    before = arena.unit(game, second, "health") + arena.unit(game, second, "shield")
    arena.look(game)
    arena.command(game, 1, "Attack_Attack", [first], target=second)
    game.advance(loops)
    left = arena.unit(game, second, "health") + arena.unit(game, second, "shield")
    return before - left


@pytest.mark.parametrize(
    ("attacker", "victim", "damage"),
    [
        ("Marine", "Zergling", 6),  # no armour
        ("Marine", "Roach", 5),  # armour 1
        ("Marine", "Zealot", 6),  # shields have none
        ("Marauder", "Roach", 19),  # 10 + 10 against armored, less 1
        ("Marauder", "Zergling", 10),
        ("Immortal", "Marauder", 49),  # 20 + 30, less 1
        ("Banshee", "Drone", 24),  # two hits of 12
    ],
)
def test_damage_of_one_attack(attacker: str, victim: str, damage: float) -> None:
    assert _duel(attacker, victim) == pytest.approx(damage, abs=0.06)


def test_weapons_that_cannot_shoot_up_do_not() -> None:
    assert _duel("Marauder", "VoidRay", loops=40) == 0
    assert _duel("Marine", "VoidRay") == 6


def test_an_upgrade_adds_to_every_hit() -> None:
    game = arena.new_game(home=1, away=2)
    marine = arena.put(game, "Marine", 1, X, Y)
    roach = arena.put(game, "Roach", 2, X + 2, Y)
    game.world.units["attack_level"][marine] = 2
    game.world.units["cooldown"][roach] = 1000
    arena.look(game)
    arena.command(game, 1, "Attack_Attack", [marine], target=roach)
    assert arena.unit(game, roach, "health") == pytest.approx(145 - 7, abs=0.06)


def test_cooldown_sets_the_pace() -> None:
    # A marine shoots every 0.61 s: 13.664 loops; in 137 loops it shoots 11 times.
    assert _duel("Marine", "CommandCenter", loops=137) == pytest.approx(55, abs=5.1)


def test_nobody_shoots_at_what_is_cloaked_until_it_is_detected() -> None:
    game = arena.new_game(home=1, away=3)
    marine = arena.put(game, "Marine", 1, X, Y)
    templar = arena.put(game, "DarkTemplar", 2, X + 3, Y)
    arena.look(game)
    arena.command(game, 2, "HoldPosition_Hold", [templar])
    game.advance(60)
    assert arena.unit(game, templar, "shield") == 80
    arena.put(game, "Raven", 1, X - 2, Y)
    game.advance(60)
    assert arena.unit(game, templar, "shield") < 80
    assert arena.unit(game, marine, "alive") == 1


def test_stim_costs_health_and_speeds_up() -> None:
    game = arena.new_game()
    game.world.upgrades[1, 15] = 1
    marine = arena.put(game, "Marine", 1, X, Y)
    arena.command(game, 1, "Effect_Stim_Marine", [marine])
    assert arena.unit(game, marine, "health") == 35
    assert game.world.buffs["id"][marine, 0] == 27
    arena.command(game, 1, "Move_Move", [marine], point=(X + 12, Y))
    game.advance(21)
    moved = arena.unit(game, marine, "x") - X
    assert moved == pytest.approx(22 * 3.15 / 22.4 * 1.5, abs=0.35)


def test_banelings_die_of_their_attack_and_hit_a_crowd() -> None:
    game = arena.new_game(home=2, away=1)
    baneling = arena.put(game, "Baneling", 1, X, Y)
    marines = [arena.put(game, "Marine", 2, X + 1.2, Y + dy) for dy in (-0.8, 0.0, 0.8)]
    game.world.units["cooldown"][marines] = 1000
    arena.look(game)
    arena.command(game, 1, "Attack_Attack", [baneling], target=marines[1])
    game.advance(20)
    assert arena.unit(game, baneling, "alive") == 0
    assert np.all(game.world.units["health"][marines] == 45 - 35)


def test_a_storm_hurts_everybody_in_it_and_passes() -> None:
    game = arena.new_game(home=3, away=1)
    game.world.upgrades[1, 52] = 1
    templar = arena.put(game, "HighTemplar", 1, X, Y)
    game.world.units["energy"][templar] = 100
    marauder = arena.put(game, "Marauder", 2, X + 6, Y)
    arena.command(game, 2, "HoldPosition_Hold", [marauder])
    game.world.units["cooldown"][marauder] = 1000
    arena.look(game)
    arena.command(game, 1, "Effect_PsiStorm", [templar], point=(X + 6, Y))
    game.advance(3)
    effects = game.world.effects[game.world.effects["alive"] == 1]
    assert [int(e["id"]) for e in effects] == [1]
    game.advance(80)
    assert arena.unit(game, marauder, "health") <= 125 - 70
    assert game.world.effects["alive"].sum() == 0
    assert arena.unit(game, templar, "energy") == pytest.approx(
        25 + 84 * 0.03516, abs=0.2
    )


def test_a_bunker_shoots_for_its_crew_and_lets_it_out_when_it_falls() -> None:
    game = arena.new_game(home=1, away=2)
    bunker = arena.put(game, "Bunker", 1, X, Y)
    marine = arena.put(game, "Marine", 1, X + 2.5, Y)
    arena.command(game, 1, "Load_Bunker", [bunker], target=marine)
    game.advance(20)
    assert arena.unit(game, marine, "carrier") == bunker
    assert arena.unit(game, bunker, "cargo_used") == 1
    roach = arena.put(game, "Roach", 2, X + 6, Y)
    game.world.units["cooldown"][roach] = 1000
    arena.look(game)
    game.advance(30)
    assert arena.unit(game, roach, "health") < 145
    game.world.units["health"][bunker] = 0.1
    game.world.units["cooldown"][roach] = 0
    game.advance(60)
    assert arena.unit(game, bunker, "alive") == 0
    assert arena.unit(game, marine, "carrier") == -1

"""Each ability is used when it helps, and not otherwise."""

import pytest

from starmill.engines.skirmish.players import chores, intents, special_abilities
from starmill.engines.skirmish.players.dice import Dice
from starmill.engines.skirmish.players.situation import Situation
from starmill.engines.skirmish.simulation import ids, rules
from tests.factories import arena


class Always:
    """Dice whose chances always, or never, come up."""

    def __init__(self, answer):
        self._answer = answer

    def chance(self, probability):
        return self._answer

    def below(self, limit):
        return 0


def _put(game, kind, count, x, y, **fields):
    rows = [arena.put(game, kind, 1, x + i, y) for i in range(count)]
    for name, value in fields.items():
        game.world.units[name][rows] = value
    return rows


def _upgrade(game, name):
    game.world.upgrades[1, rules.upgrade_id(name)] = 1


def _names(used):
    names = {number: name for name, number in rules.ability_names().items()}
    return [names.get(intent.ability, intent.ability) for intent in used]


def _fight(game, dice=None):
    return special_abilities.fight(Situation(game, 1), dice or Always(False))


def test_marines_use_stimpacks_only_in_a_fight_with_the_upgrade_and_once():
    game = arena.new_game(home=1)
    rows = _put(game, "Marine", 5, *arena.OPEN, engaged=1)
    assert _fight(game) == []
    _upgrade(game, "Stimpack")
    (stim,) = _fight(game)
    assert stim.ability == intents.ABILITY_STIM
    assert stim.tags == tuple(arena.tag(game, row) for row in rows)
    game.world.units["engaged"][rows] = 0
    assert _fight(game) == []


def test_tanks_siege_in_a_fight_and_unsiege_after_it():
    game = arena.new_game(home=1)
    x, y = arena.OPEN
    _put(game, "SiegeTank", 1, x, y, engaged=1)
    assert _names(_fight(game)) == ["Morph_SiegeMode"]
    _put(game, "SiegeTankSieged", 1, x + 5, y)
    assert _names(_fight(game)) == ["Morph_SiegeMode"]
    assert _names(_fight(game, Always(True))) == ["Morph_SiegeMode", "Morph_Unsiege"]


@pytest.mark.parametrize(("count", "casts"), [(3, False), (4, True)])
def test_storms_need_four_enemies_together(count, casts):
    game = arena.new_game(home=3, away=1)
    x, y = arena.OPEN
    _put(game, "HighTemplar", 1, x, y, energy=80.0)
    _upgrade(game, "PsiStorm")
    for i in range(count):
        arena.put(game, "Marine", 2, x + 5 + i / 2, y)
    arena.look(game)
    storms = [i for i in _fight(game) if i.point is not None]
    assert _names(storms) == ["Effect_PsiStorm"] * casts


def test_a_stalker_without_shields_blinks_away_from_the_enemy():
    game = arena.new_game(home=3, away=1)
    x, y = arena.OPEN
    _put(game, "Stalker", 1, x, y, engaged=1, shield=0.0)
    arena.put(game, "Marine", 2, x + 5, y)
    arena.look(game)
    assert _fight(game) == []
    _upgrade(game, "Blink")
    (blink,) = _fight(game)
    assert blink.ability == intents.ABILITY_BLINK
    assert blink.point == pytest.approx((x - 7, y))


def test_weak_roaches_burrow_and_healed_ones_come_up():
    game = arena.new_game(home=2)
    x, y = arena.OPEN
    (weak,) = _put(game, "Roach", 1, x, y, health=20.0)
    (healed,) = _put(game, "RoachBurrowed", 1, x + 5, y)
    assert _fight(game) == []
    _upgrade(game, "Burrow")
    down, up = _fight(game)
    assert (down.ability, down.tags) == (
        intents.ABILITY_BURROW_DOWN,
        (arena.tag(game, weak),),
    )
    assert (up.ability, up.tags) == (
        intents.ABILITY_BURROW_UP,
        (arena.tag(game, healed),),
    )


def test_orbital_commands_scan_for_hidden_enemies():
    game = arena.new_game(home=1)
    x, y = game.map.starts[0]
    arena.put(game, "OrbitalCommand", 1, *arena.OPEN)
    orbital = arena.rows_of(game, "OrbitalCommand", 1)
    game.world.units["energy"][orbital] = 60.0
    marine = arena.put(game, "Marine", 1, x + 8, y + 8)
    situation = Situation(game, 1)
    situation.has_hidden_enemies = True
    (scan,) = special_abilities.energy(situation, Always(False))
    assert _names([scan]) == ["Effect_Scan"]
    units = game.world.units
    assert scan.point == (units["x"][marine], units["y"][marine])


def test_queens_inject_each_hatchery_once():
    game = arena.new_game(home=2)
    x, y = game.map.starts[0]
    _put(game, "Queen", 2, x + 6, y, energy=60.0)
    used = special_abilities.energy(Situation(game, 1), Always(False))
    assert _names(used)[0] == "Effect_InjectLarva"
    assert _names(used).count("Effect_InjectLarva") == 1
    # The second queen has nothing to inject, so it plants a tumor.
    assert used[1].ability == intents.ABILITY_CREEP_TUMOR


def test_bunkers_are_filled_and_damage_is_repaired():
    game = arena.new_game(home=1)
    x, y = arena.OPEN
    (bunker,) = _put(game, "Bunker", 1, x, y)
    marines = _put(game, "Marine", 6, x + 3, y)
    load, *rest = chores.chores(Situation(game, 1), Always(False))
    assert (load.ability, load.tags) == (
        intents.ABILITY_LOAD,
        (arena.tag(game, bunker),),
    )
    assert load.target_tag == arena.tag(game, marines[0])
    assert rest == []
    game.world.units["health"][bunker] = 50.0
    _, repair = chores.chores(Situation(game, 1), Always(False))
    assert repair.ability == intents.ABILITY_REPAIR
    assert repair.target_tag == arena.tag(game, bunker)


def test_vikings_land_without_enemy_flyers_and_lift_off_against_them():
    game = arena.new_game(home=1, away=1)
    x, y = arena.OPEN
    _put(game, "VikingFighter", 1, x, y)
    for i in range(4):
        arena.put(game, "Marine", 2, x + i, y + 3)
    arena.look(game)
    used = chores.chores(Situation(game, 1), Always(False))
    assert _names(used) == ["Morph_VikingAssaultMode"]
    arena.put(game, "Banshee", 2, x, y + 4)
    _put(game, "VikingAssault", 1, x + 1, y + 1)
    arena.look(game)
    used = chores.chores(Situation(game, 1), Always(False))
    assert _names(used) == ["Morph_VikingFighterMode"]


@pytest.mark.parametrize("race", [1, 2, 3])
def test_everything_asked_for_belongs_to_own_units(race):
    game = arena.new_game(home=race, away=2)
    game.advance(100)
    situation = Situation(game, 1)
    own = set(situation.tags.tolist())
    dice = Dice(race)
    for _ in range(20):
        for act in (
            special_abilities.energy,
            special_abilities.fight,
            chores.chores,
        ):
            for intent in act(Situation(game, 1), dice):
                assert set(intent.tags) <= own


def test_without_time_nobody_spreads_creep_or_speeds_up_a_building():
    game = arena.new_game(home=2)
    x, y = game.map.starts[0]
    _put(game, "Queen", 2, x + 6, y, energy=60.0)
    hasty = special_abilities.energy(Situation(game, 1), Always(False), False)
    assert _names(hasty) == ["Effect_InjectLarva"]
    game = arena.new_game(home=3)
    nexus = arena.rows_of(game, "Nexus", 1)[0]
    game.world.units["energy"][nexus] = 60.0
    arena.command(game, 1, "Train_Probe", [nexus])
    game.advance(10)
    situation = Situation(game, 1)
    assert special_abilities.energy(situation, Always(False), False) == []
    assert len(special_abilities.energy(situation, Always(False), True)) == 1


def test_tumors_are_planted_on_creep_only():
    game = arena.new_game(home=2)
    x, y = arena.OPEN
    _put(game, "Queen", 1, x, y, energy=60.0)
    hall = arena.rows_of(game, "Hatchery", 1)[0]
    game.world.buffs["id"][hall, 0] = ids.BUFF_INJECT  # nothing to inject
    game.world.units["buff_count"][hall] = 1
    assert special_abilities.energy(Situation(game, 1), Always(False)) == []


def test_void_rays_wait_until_they_can_align_again():
    game = arena.new_game(home=3, away=1)
    x, y = arena.OPEN
    (ray,) = _put(game, "VoidRay", 1, x, y)
    marine = arena.put(game, "Marine", 2, x, y + 3)
    game.world.units["engaged"][ray] = arena.tag(game, marine)
    name = "Effect_VoidRayPrismaticAlignment"
    assert name in _names(special_abilities.fight(Situation(game, 1), Always(False)))
    game.world.units["wait"][ray] = game.loop + 100
    assert special_abilities.fight(Situation(game, 1), Always(False)) == []

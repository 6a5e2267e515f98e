import numpy as np

from starmill.engines.skirmish.observation import visible_units
from starmill.engines.skirmish.simulation import rules
from tests.factories import arena

X, Y = arena.OPEN


def _shown(game, player: int, row: int) -> bool:
    return row in visible_units.player_view(game, player).rows


def _memories(game, player: int) -> np.ndarray:
    shown = visible_units.player_view(game, player)
    return shown.units[shown.display == visible_units.DISPLAY_SNAPSHOT]


def test_a_player_sees_what_is_near_its_units_and_not_the_rest() -> None:
    game = arena.new_game()
    near = arena.put(game, "Zergling", 2, X + 5, Y)
    arena.look(game)
    assert not _shown(game, 1, near)
    arena.put(game, "Marine", 1, X, Y)
    arena.look(game)
    assert _shown(game, 1, near)
    assert game.world.visibility[1, int(Y), int(X)] == 2


def test_what_was_seen_is_fogged_afterwards() -> None:
    game = arena.new_game()
    marine = arena.put(game, "Marine", 1, X, Y)
    arena.look(game)
    game.world.units["alive"][marine] = 0
    arena.look(game)
    assert game.world.visibility[1, int(Y), int(X)] == 1


def test_high_ground_is_hidden_from_below_but_not_from_the_air() -> None:
    game = arena.new_game()
    main = game.map.bases[1]  # the enemy's, on high ground
    x, y = main.x, main.y + 18.0
    assert game.map.terrain[int(y), int(x)] < game.map.terrain[int(main.y), int(main.x)]
    arena.put(game, "Marine", 1, x, y)
    arena.look(game)
    edge = (int(main.y) + 12, int(main.x))
    assert game.world.visibility[1][edge] == 0
    arena.put(game, "Medivac", 1, x, y)
    arena.look(game)
    assert game.world.visibility[1][edge] == 2


def test_buildings_are_remembered_as_they_were_last_seen() -> None:
    game = arena.new_game()
    pool = arena.put(game, "SpawningPool", 2, X + 4.5, Y + 0.5)
    marine = arena.put(game, "Marine", 1, X, Y)
    arena.look(game)
    game.world.units["alive"][marine] = 0
    arena.look(game)
    pool_tag = arena.tag(game, pool)
    memories = _memories(game, 1)
    mine = memories[memories["tag"] == pool_tag]
    assert len(mine) == 1
    assert mine["health"][0] == 1000
    game.world.units["health"][pool] = 10
    assert _memories(game, 1)["health"].max() >= 1000
    # Gone, but the memory stays until somebody looks again.
    game.world.units["alive"][pool] = 0
    arena.look(game)
    assert pool_tag in _memories(game, 1)["tag"]
    arena.put(game, "Marine", 1, X, Y)
    arena.look(game)
    assert pool_tag not in _memories(game, 1)["tag"]


def test_resources_are_known_from_the_start() -> None:
    game = arena.new_game()
    fields = rules.unit_rules()["mineral_field"] != 0
    total = fields[visible_units.player_view(game, 1).units["unit_type"]].sum()
    assert total == 8 * len(game.map.bases)


def test_cloaked_units_are_hidden_until_detected() -> None:
    game = arena.new_game(home=1, away=3)
    templar = arena.put(game, "DarkTemplar", 2, X + 4, Y)
    arena.put(game, "Marine", 1, X, Y)
    arena.look(game)

    def seen(player: int) -> tuple[int, int]:
        shown = visible_units.player_view(game, player)
        index = list(shown.rows).index(templar)
        return int(shown.display[index]), int(shown.cloak[index])

    assert seen(1) == (visible_units.DISPLAY_HIDDEN, visible_units.CLOAKED)
    assert seen(2) == (visible_units.DISPLAY_VISIBLE, visible_units.CLOAKED_ALLIED)
    arena.put(game, "MissileTurret", 1, X, Y + 3)
    arena.look(game)
    assert seen(1) == (visible_units.DISPLAY_VISIBLE, visible_units.CLOAKED_DETECTED)


def test_sensor_towers_report_blips() -> None:
    game = arena.new_game()
    tower = arena.put(game, "SensorTower", 1, X, Y)
    zergling = arena.put(game, "Zergling", 2, X + 25, Y)
    arena.look(game)
    shown = visible_units.player_view(game, 1)
    assert bool(shown.blip[list(shown.rows).index(zergling)])
    game.world.units["alive"][tower] = 0
    arena.look(game)
    assert not _shown(game, 1, zergling)


def test_watch_towers_serve_whoever_stands_there_alone() -> None:
    game = arena.new_game()
    units = game.world.units
    row = int(np.flatnonzero(units["unit_type"] == 149)[0])
    x, y = units["x"][row], units["y"][row]
    far = (int(y) + 18, int(x))
    assert game.world.visibility[1][far] == 0
    arena.put(game, "Marine", 1, x + 1.5, y)
    arena.look(game)
    assert game.world.visibility[1][far] == 2
    arena.put(game, "Zergling", 2, x - 1.5, y)
    arena.look(game)
    assert game.world.visibility[1][far] == 1


def test_a_building_on_its_way_is_a_placeholder() -> None:
    game = arena.new_game()
    arena.rich(game, 1)
    worker = arena.rows_of(game, "SCV", 1)[0]
    spot = (game.map.starts[0][0] + 9.0, game.map.starts[0][1])
    arena.command(game, 1, "Build_SupplyDepot", [worker], point=spot)
    shown = visible_units.player_view(game, 1)
    placeholders = shown.units[shown.display == visible_units.DISPLAY_PLACEHOLDER]
    assert [(p["unit_type"], p["x"], p["y"]) for p in placeholders] == [
        (19, *_whole(spot))
    ]
    game.advance(300)
    assert (
        visible_units.DISPLAY_PLACEHOLDER
        not in visible_units.player_view(game, 1).display
    )
    assert len(arena.rows_of(game, "SupplyDepot", 1)) == 1


def _whole(spot: tuple[float, float]) -> tuple[float, float]:
    return float(np.floor(spot[0] + 0.5)), float(np.floor(spot[1] + 0.5))

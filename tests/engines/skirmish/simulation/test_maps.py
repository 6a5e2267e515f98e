import numpy as np
import pytest

from starmill.engines.skirmish.simulation import entry_points, maps, rules
from tests.factories import arena

NAMES = [*maps.MAPS, *maps.STAND_INS]
# The real maps' playable areas and numbers of bases, as recorded games of them say.
REAL_MAPS = {
    "Acropolis": ((140, 136), 16),
    "Automaton": ((148, 148), 16),
    "Cyber Forest": ((128, 148), 14),
    "Kairos Junction": ((120, 140), 16),
    "King's Cove": ((152, 148), 18),
    "New Repugnancy": ((152, 120), 16),
    "Port Aleksander": ((156, 140), 16),
    "Thunderbird": ((140, 140), 16),
    "Year Zero": ((166, 128), 14),
}
LOWEST, MIDDLE, HIGHEST = 111, 127, 143


def _reachable(walkable: np.ndarray, start: tuple[int, int]) -> np.ndarray:
    """Flood fill in the obvious way."""
    seen = np.zeros_like(walkable, bool)
    stack = [start]
    while stack:
        row, column = stack.pop()
        if seen[row, column] or not walkable[row, column]:
            continue
        seen[row, column] = True
        stack += [
            (row + 1, column),
            (row - 1, column),
            (row, column + 1),
            (row, column - 1),
        ]
    return seen


def test_there_are_several_sizes_and_some_are_not_square() -> None:
    sizes = {(m.width, m.height) for m in maps.MAPS.values()}
    assert len(sizes) == 5
    assert any(width > height for width, height in sizes)
    assert any(width < height for width, height in sizes)


@pytest.mark.parametrize("name", NAMES)
def test_both_halves_are_the_same(name: str) -> None:
    game_map = maps.map_named(name)
    assert np.array_equal(game_map.pathable, game_map.pathable[::-1, ::-1])
    assert np.array_equal(game_map.placeable, game_map.placeable[::-1, ::-1])
    (x0, y0), (x1, y1) = game_map.starts
    assert (x0 + x1, y0 + y1) == (game_map.width, game_map.height)


@pytest.mark.parametrize("name", NAMES)
def test_every_base_can_be_reached_on_foot(name: str) -> None:
    game_map = maps.map_named(name)
    start = (int(game_map.starts[0][1]), int(game_map.starts[0][0]))
    seen = _reachable(game_map.pathable, start)
    assert all(seen[int(base.y), int(base.x)] for base in game_map.bases)


@pytest.mark.parametrize("name", NAMES)
def test_a_town_hall_fits_at_every_free_base(name: str) -> None:
    game = arena.new_game(name=name)
    game.world.visibility[1] = 2
    hall = rules.unit_id("CommandCenter")
    codes = [
        entry_points.placement_error(game.world.state, 1, hall, base.x, base.y)
        for base in game.map.bases[2:]
    ]
    assert codes == [1] * len(codes)


@pytest.mark.parametrize("name", NAMES)
def test_high_ground_middle_ground_and_ramps(name: str) -> None:
    game_map = maps.map_named(name)
    main, natural = game_map.bases[0], game_map.bases[2]
    assert game_map.terrain[int(main.y), int(main.x)] == HIGHEST
    assert game_map.terrain[int(natural.y), int(natural.x)] == MIDDLE
    for third in game_map.bases[4:]:
        assert game_map.terrain[int(third.y), int(third.x)] == LOWEST
    heights = sorted(int(game_map.terrain[cells].max()) for cells in _ramps(game_map))
    assert all(LOWEST < height < MIDDLE for height in heights[:2])
    assert all(MIDDLE < height < HIGHEST for height in heights[2:])
    assert len(heights) == 4


def _ramps(game_map: maps.GameMap) -> list[tuple[np.ndarray, np.ndarray]]:
    """Returns rows and columns of each ramp: sloped cells that touch and cannot be built on."""
    bare = game_map.pathable & ~game_map.placeable
    left = {(int(row), int(column)) for row, column in np.argwhere(bare)}
    for row, column in left:
        around = game_map.terrain[row - 1 : row + 2, column - 1 : column + 2]
        assert len(np.unique(around)) > 1  # otherwise bots take it for a vision blocker
    ramps = []
    while left:
        ramp, stack = [], [left.pop()]
        while stack:
            row, column = stack.pop()
            ramp.append((row, column))
            for dy, dx in np.ndindex(3, 3):
                near = (row + dy - 1, column + dx - 1)
                if near in left:
                    left.discard(near)
                    stack.append(near)
        rows, columns = np.array(ramp).T
        ramps.append((rows, columns))
    return ramps


@pytest.mark.parametrize("name", NAMES)
def test_a_wall_of_two_depots_and_a_barracks_fits_at_the_main_ramp(name: str) -> None:
    """The two highest cells of a main ramp are diagonal neighbours, and bots build beside them."""
    game_map = maps.map_named(name)
    for start in game_map.bases[:2]:
        tops = []
        for rows, columns in _ramps(game_map):
            heights = game_map.terrain[rows, columns]
            if heights.max() > MIDDLE:
                highest = heights == heights.max()
                tops.append((rows[highest] + 0.5, columns[highest] + 0.5))
        rows, columns = min(
            tops, key=lambda t: np.hypot(t[1].mean() - start.x, t[0].mean() - start.y)
        )
        assert len(rows) == 2
        assert abs(rows[0] - rows[1]) == abs(columns[0] - columns[1]) == 1
        x, y = columns.mean(), rows.mean()
        assert np.hypot(x - start.x, y - start.y) < 16
        inward = (np.sign(start.x - x), np.sign(start.y - y))
        # Offsets from the middle of the two cells, in the directions towards the town hall.
        wall = [((1, 1), 2), ((1.5, 1.5), 3), ((2, -1), 2), ((-1, 2), 2)]
        covered = []
        for (dx, dy), size in wall:
            left = x + dx * inward[0] - size / 2
            bottom = y + dy * inward[1] - size / 2
            assert (left, bottom) == (int(left), int(bottom))
            cells = np.s_[
                int(bottom) : int(bottom) + size, int(left) : int(left) + size
            ]
            assert game_map.placeable[cells].all()
            covered.append(cells)
        closed = np.array(game_map.pathable)
        for cells in covered[1:]:
            closed[cells] = False
        natural = game_map.bases[2 + game_map.bases.index(start)]
        seen = _reachable(closed, (int(start.y), int(start.x)))
        assert not seen[int(natural.y), int(natural.x)]


@pytest.mark.parametrize("name", NAMES)
def test_no_unit_steps_over_a_cliff(name: str) -> None:
    """Levels are 16 apart; neighbouring cells that can be walked on are at most half of that."""
    game_map = maps.map_named(name)
    heights = game_map.terrain.astype(int)
    for axis in (0, 1):
        after, before = np.roll(heights, -1, axis), heights
        both = np.roll(game_map.pathable, -1, axis) & game_map.pathable
        assert np.abs(after - before)[both].max() < 10


@pytest.mark.parametrize("name", NAMES)
def test_resources_stand_on_open_ground_and_bases_keep_apart(name: str) -> None:
    game_map = maps.map_named(name)
    for base in game_map.bases:
        for item in base.resources:
            row, column = int(item.y), int(item.x)
            assert game_map.placeable[row - 1 : row + 1, column - 1 : column + 1].all()
        gaps = [np.hypot(base.x - b.x, base.y - b.y) for b in game_map.bases]
        assert sorted(gaps)[1] > 20


@pytest.mark.parametrize("name", NAMES)
def test_bots_find_each_base_by_its_resources(name: str) -> None:
    """The rule of python-sc2: the place nearest to all resources, but not too near to any."""
    game_map = maps.map_named(name)
    for base in game_map.bases:
        xs = np.array([r.x for r in base.resources])
        ys = np.array([r.y for r in base.resources])
        apart = np.array([7.0 if r.vespene else 6.0 for r in base.resources])
        places = {}
        for dx, dy in np.ndindex(21, 21):
            x, y = int(xs.mean()) + 0.5 + dx - 10, int(ys.mean()) + 0.5 + dy - 10
            away = np.hypot(xs - x, ys - y)
            if (away >= apart).all():
                places[x, y] = away.sum()
        assert min(places, key=lambda place: places[place]) == (base.x, base.y)


def test_stand_ins_have_the_size_and_the_bases_of_the_maps_whose_names_they_bear() -> (
    None
):
    facts = {}
    for name in maps.STAND_INS:
        left, bottom, right, top = maps.map_named(name).playable
        bases = maps.map_named(name).bases
        assert {len(base.resources) for base in bases} == {10}
        facts[name] = ((right - left, top - bottom), len(bases))
    assert facts.pop("Turbo Cruise '84")[1] == 14
    assert facts == REAL_MAPS


@pytest.mark.parametrize("size", [32, 48, 64, 96, 128])
def test_flat_maps_are_flat_and_as_large_as_their_name_says(size: int) -> None:
    game_map = maps.map_named(f"Flat{size}")
    left, bottom, right, top = game_map.playable
    assert (right - left, top - bottom) == (size, size)
    assert game_map.pathable.sum() == game_map.placeable.sum() == size * size
    assert len(np.unique(game_map.terrain)) == 1
    inside = [
        left < r.x < right and bottom < r.y < top
        for base in game_map.bases
        for r in base.resources
    ]
    assert len(inside) == (40 if size >= 64 else 20)
    assert all(inside)


def test_nobody_has_units_on_the_empty_map_and_nobody_loses() -> None:
    game = arena.new_game(name="Empty128")
    game.advance(6000)
    assert game.loop == 6000
    assert not game.world.units["alive"].any()
    assert game.result is None


def test_a_map_that_does_not_exist_has_no_name() -> None:
    with pytest.raises(KeyError):
        maps.map_named("Ulrena")

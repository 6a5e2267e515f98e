"""Small games for tests: a map, two races, and units where a test needs them."""

from starmill.engines.skirmish.simulation import entry_points, maps, rules
from starmill.engines.skirmish.simulation.game import (
    Game,
    PlayerSetup,
    UnitCommand,
)

OPEN = (60.0, 60.0)  # an empty place in the middle of Amber Basin's low ground


def new_game(
    home: int = 1,
    away: int = 2,
    seed: int = 5,
    name: str = "Amber Basin",
    *,
    prompt: bool = False,
) -> Game:
    """Returns a game at its start. prompt: whether player 1 is."""
    setups = (
        PlayerSetup(race_requested=home, race=home, start=0, prompt=prompt),
        PlayerSetup(race_requested=away, race=away, start=1),
    )
    return Game(maps.map_named(name), setups, seed)


def put(
    game: Game, kind: str, player: int, x: float, y: float, done: float = 1.0
) -> int:
    """Creates a unit and returns its row."""
    unit_type = rules.unit_id(kind)
    row = int(entry_points.spawn(game.world.state, unit_type, player, x, y, done))
    game.world.units["seen"][row] = 1 << player  # its owner sees it at once
    return row


def look(game: Game) -> None:
    entry_points.refresh_vision(game.world.state)


def tag(game: Game, row: int) -> int:
    return int(game.world.units["tag"][row])


def command(
    game: Game,
    player: int,
    name: str,
    rows: list[int],
    *,
    target: int | None = None,
    point: tuple[float, float] | None = None,
    queued: bool = False,
) -> None:
    """Gives units a command by its name and plays one loop."""
    game.step(
        [
            UnitCommand(
                player,
                rules.ability_id(name),
                tuple(tag(game, row) for row in rows),
                tag(game, target) if target is not None else 0,
                point,
                queued,
            )
        ]
    )


def rows_of(game: Game, kind: str, player: int) -> list[int]:
    units = game.world.units
    match = (units["alive"] == 1) & (units["owner"] == player)
    match &= units["unit_type"] == rules.unit_id(kind)
    return [int(row) for row in match.nonzero()[0]]


def unit(game: Game, row: int, field: str) -> float:
    return game.world.units[field][row].item()


def rich(game: Game, player: int) -> None:
    game.world.players["minerals"][player] = 5000
    game.world.players["vespene"][player] = 5000

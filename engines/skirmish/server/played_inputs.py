"""Inputs as they were played, with what an observation says of them.

In: a game before a loop, and the inputs of that loop. Out: a `PlayedInput` for each. Must not know:
the protocol.
"""

import dataclasses
from collections.abc import Iterable

from starmill.engines.skirmish.simulation import game


@dataclasses.dataclass(frozen=True, kw_only=True)
class PlayedInput:
    """One input as it was played.

    Attributes:
        loop: the loop on which it was played.
        item: the input.
        ability: of a command, the specific ability by which the units obeyed; 0 of other inputs.
        camera: (x, y) of the player's camera at that time.
        origin: what the client asked for; None in a replay, and for what the game does itself.
        implied: whether it only accompanies what the client asked for.
    """

    loop: int
    item: game.Input
    ability: int
    camera: tuple[float, float]
    origin: object | None = None
    implied: bool = False


def note(
    play: game.Game, items: Iterable[tuple[game.Input, object | None, bool]]
) -> list[PlayedInput]:
    """Returns the notes on the inputs of the coming loop; call it before they are played.

    items: each input, its origin, and whether it is implied.
    """
    cameras = {}
    for player in (1, 2):
        state = play.world.players[player]
        cameras[player] = (float(state["camera_x"]), float(state["camera_y"]))
    played = []
    for item, origin, implied in items:
        if isinstance(item, game.CameraMove):
            cameras[item.player] = (item.x, item.y)
        played.append(
            PlayedInput(
                loop=play.loop,
                item=item,
                ability=_ability(play, item),
                camera=cameras[item.player],
                origin=origin,
                implied=implied,
            )
        )
    return played


def _ability(play: game.Game, item: game.Input) -> int:
    return play.command_ability(item) if isinstance(item, game.UnitCommand) else 0

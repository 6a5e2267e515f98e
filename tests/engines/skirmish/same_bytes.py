"""Writes the digests of a whole ladder game's replay and of both players' observations of it.

    python tests/engines/skirmish/same_bytes.py [SEED INDEX]

Run by `tests/same_bytes.sh` under several Pythons, which must write the same.
"""

import hashlib
import sys

from starmill.converters.protos import sc2api_pb2
from starmill.engines.skirmish import ladder, recorded_game, versions
from starmill.engines.skirmish.server import faults, session

_STEP = 50  # loops between two observations
_IN_REPLAY = 4


def _replay(seed: int, index: int) -> bytes:
    match = ladder.pairing(seed, index, versions.VERSIONS)
    sides = [
        recorded_game.Player(
            kind="bot", race=match.races[i], mmr=match.mmrs[i], name=match.names[i]
        )
        for i in (0, 1)
    ]
    return recorded_game.play_game(
        home=sides[0],
        away=sides[1],
        map_name=match.map_name,
        seed=match.seed,
        version=versions.by_number(match.version),
    ).replay


def _observations(replay: bytes, version: str, player: int) -> str:
    """Returns a digest of the answers to observation requests through a replay."""
    game = session.Session(
        version=versions.by_number(version),
        maps_dir="",
        injector=faults.FaultInjector(),
    )
    options = sc2api_pb2.InterfaceOptions(raw=True, score=True)
    options.feature_layer.width = 24
    screen = options.feature_layer.resolution
    screen.x = screen.y = 1
    minimap = options.feature_layer.minimap_resolution
    minimap.x = minimap.y = 128
    start = sc2api_pb2.RequestStartReplay(
        replay_data=replay, observed_player_id=player, options=options
    )
    game.answer(sc2api_pb2.Request(start_replay=start))
    digest = hashlib.sha256()
    while game.status == _IN_REPLAY:
        step = sc2api_pb2.RequestStep(count=_STEP)
        game.answer(sc2api_pb2.Request(step=step))
        look = sc2api_pb2.RequestObservation()
        digest.update(game.answer(sc2api_pb2.Request(observation=look)))
    return digest.hexdigest()


def main() -> None:
    seed, index = (int(text) for text in sys.argv[1:] or ("101", "2"))
    replay = _replay(seed, index)
    lines = [f"replay {hashlib.sha256(replay).hexdigest()}"]
    version = ladder.pairing(seed, index, versions.VERSIONS).version
    for player in (1, 2):
        lines.append(f"player {player} {_observations(replay, version, player)}")
    sys.stdout.write("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()

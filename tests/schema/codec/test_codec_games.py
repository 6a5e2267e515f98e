"""Whole episodes of the embedded game come back from the codec as they went in."""

import numpy as np
import pytest

from starmill.converters import episode, timing
from starmill.converters.observation import Converter
from starmill.engines import client, playback
from starmill.engines.pool import SKIRMISH, Pool, PoolConfig
from starmill.engines.replays import replay_file
from starmill.engines.skirmish import recorded_game, versions
from starmill.schema import codec
from starmill.schema.settings import UNPLUGGED

pytestmark = pytest.mark.timeout(900)
DEADLINES = client.Deadlines(start=300, load=300, play=120)


@pytest.fixture(scope="module")
def replay_data():
    sides = [
        recorded_game.parse_player("bot:7000", race) for race in ("zerg", "protoss")
    ]
    outcome = recorded_game.play_game(
        home=sides[0],
        away=sides[1],
        map_name=None,
        seed=6,
        version=versions.LATEST,
        max_loops=20_000,
    )
    return outcome.replay


@pytest.mark.parametrize("side", [1, 2])
def test_a_game_between_bots_comes_back(replay_data, side):
    settings = UNPLUGGED
    frames = timing.action_frames(replay_file.open_replay(replay_data).game_events())
    pool = Pool(PoolConfig(root=SKIRMISH, deadlines=DEADLINES))
    try:
        executable = pool.installation.executable(
            versions.LATEST.number, versions.LATEST.base_build, None
        )
        with pool.lease(executable) as (game,):
            player = playback.Player(game)
            info = player.load(replay_data, side, settings)
            converter = Converter(settings, info.game_info, info.replay_info)
            stream = player.stream(frames[side])
            arrays = episode.stack(
                episode.convert_stream(converter, stream, frames[side])
            )
    finally:
        pool.close()
    assert len(arrays["game_loop"]) > 200
    assert len(np.unique(arrays["raw_units"][:, :, 0])) > 10
    encoder = codec.EpisodeEncoder(settings)
    for step in range(len(arrays["game_loop"])):
        encoder.add({key: values[step] for key, values in arrays.items()})
    records = encoder.finish()
    decoded = codec.decode(records, settings)
    assert set(decoded) == set(arrays)
    for key, values in arrays.items():
        assert decoded[key].dtype == values.dtype, key
        np.testing.assert_array_equal(decoded[key], values, err_msg=key)
    raw = sum(values.nbytes for values in arrays.values())
    assert sum(len(record) for record in records) * 100 < raw

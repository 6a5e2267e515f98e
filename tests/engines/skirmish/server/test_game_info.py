import numpy as np
import pytest

from starmill.converters.protos import sc2api_pb2
from starmill.engines.skirmish.replays import members, reader
from starmill.engines.skirmish.server import game_info
from starmill.engines.skirmish.simulation import maps
from starmill.engines.skirmish.simulation.game import Game, PlayerSetup
from starmill.schema import errors

OPTIONS = sc2api_pb2.InterfaceOptions(raw=True)
PEOPLE = (
    members.Participant(name="own"),
    members.Participant(name="enemy", computer=True, difficulty=7, build=2),
)


@pytest.fixture
def game():
    setups = (
        PlayerSetup(race_requested=4, race=1, start=1),
        PlayerSetup(race_requested=4, race=3, start=0),
    )
    return Game(maps.MAPS["Amber Basin"], setups, 2)


def test_a_player_does_not_learn_the_enemy_s_random_race(game):
    info = game_info.game_info(game, PEOPLE, observer=1, options=OPTIONS)
    own, enemy = info.player_info
    assert (own.race_requested, own.race_actual) == (4, 1)
    assert enemy.race_requested == 4 and not enemy.HasField("race_actual")
    assert (enemy.type, enemy.difficulty, enemy.ai_build) == (2, 7, 2)
    assert own.type == sc2api_pb2.Participant and not own.HasField("difficulty")
    assert info.options == OPTIONS


def test_a_replay_shows_both_races(game):
    info = game_info.game_info(game, PEOPLE, observer=None, options=OPTIONS)
    assert [player.race_actual for player in info.player_info] == [1, 3]


def test_the_grids_are_the_map_s(game):
    info = game_info.game_info(game, PEOPLE, observer=1, options=OPTIONS)
    start, game_map = info.start_raw, game.map
    assert (start.map_size.x, start.map_size.y) == (game_map.width, game_map.height)
    (enemy,) = start.start_locations
    assert (enemy.x, enemy.y) == game_map.starts[0]
    height = np.frombuffer(start.terrain_height.data, np.uint8)
    assert height.reshape(game_map.height, -1).tolist() == game_map.terrain.tolist()
    pathing = start.pathing_grid
    assert pathing.bits_per_pixel == 1
    bits = np.unpackbits(np.frombuffer(pathing.data, np.uint8))
    walkable = np.asarray(game_map.pathable, np.uint8).ravel()
    assert bits[: walkable.size].tolist() == walkable.tolist()


def test_replay_info_reads_metadata_of_any_game():
    metadata = {
        "Title": "Acropolis LE",
        "BaseBuild": "Base75689",
        "DataBuild": "75689",
        "Players": [
            {"PlayerID": 1, "SelectedRace": "Rand", "AssignedRace": "Zerg"},
            {"PlayerID": 2, "AssignedRace": "Prot", "MMR": 5100, "Result": "Win"},
        ],
    }
    summary = reader.Summary(metadata=metadata, loops=2240, ours=False)
    info = game_info.replay_info(summary)
    assert (info.base_build, info.data_build) == (75689, 75689)
    assert info.game_duration_seconds == pytest.approx(100.0)
    first, second = info.player_info
    assert first.player_info.race_requested == 4
    assert (first.player_info.race_actual, first.player_mmr) == (2, 0)
    assert first.player_result.result == sc2api_pb2.Undecided
    assert (second.player_mmr, second.player_result.result) == (5100, 1)
    assert not info.HasField("local_map_path")


def test_metadata_that_do_not_fit_are_an_error():
    metadata = {"BaseBuild": "Base75689", "DataBuild": "many"}
    summary = reader.Summary(metadata=metadata, loops=1, ours=False)
    with pytest.raises(errors.ReplayError, match="metadata"):
        game_info.replay_info(summary)

"""Who may join which game: players, observers, and what they ask to see."""

import pytest

from starmill.converters.protos import sc2api_pb2
from tests.factories import games

LAUNCHED, INIT = 1, 2


@pytest.fixture
def client():
    return games.LocalClient()


def test_joining_without_a_game_is_a_protocol_error(client):
    answer = client.ask(join_game=sc2api_pb2.RequestJoinGame())
    assert answer.error == ["No game has been created, and there are no ports"]
    assert not answer.HasField("join_game")
    assert client.status == LAUNCHED


def test_rendered_images_are_refused(client):
    options = games.replay_options()
    options.render.resolution.x = options.render.resolution.y = 64
    error = sc2api_pb2.ResponseJoinGame
    answer = client.create(options=options)
    assert answer.error == error.FeatureUnsupported
    assert "renders no images" in answer.error_details
    start = sc2api_pb2.RequestStartReplay(
        replay_data=games.played().replay, observed_player_id=1, options=options
    )
    answer = games.LocalClient().ask(start_replay=start).start_replay
    assert answer.error == sc2api_pb2.ResponseStartReplay.LaunchError


def _create_watched(client, *seats):
    create = sc2api_pb2.RequestCreateGame(
        local_map=sc2api_pb2.LocalMap(map_path="Melee/Simple64.SC2Map"), random_seed=3
    )
    for seat in seats:
        create.player_setup.add(type=seat, race=1, difficulty=1)
    return client.ask(create_game=create).create_game


def _watch(client, player):
    join = sc2api_pb2.RequestJoinGame(
        observed_player_id=player, options=games.replay_options()
    )
    return client.ask(join_game=join).join_game


@pytest.mark.parametrize("watched", [0, 1])
def test_an_observer_watches_two_computers(client, watched):
    computer, observer = sc2api_pb2.Computer, sc2api_pb2.Observer
    answer = _create_watched(client, computer, computer, observer)
    assert not answer.HasField("error")
    assert _watch(client, watched).player_id == watched
    client.step(200)
    seen = client.observe().observation
    owners = {u.owner for u in seen.raw_data.units if u.owner in (1, 2)}
    assert owners == ({1, 2} if watched == 0 else {1})
    assert {u.display_type for u in seen.raw_data.units if u.owner == 1} == {1}
    refused = client.ask(action=sc2api_pb2.RequestAction())
    assert refused.error == ["An observer has no units"]
    info = client.ask(game_info=sc2api_pb2.RequestGameInfo()).game_info
    assert [p.race_actual for p in info.player_info] == [1, 1]
    saved = client.ask(save_replay=sc2api_pb2.RequestSaveReplay()).save_replay.data
    assert not client.start_replay(saved).HasField("error")


def test_roles_that_do_not_fit_the_game_are_refused(client):
    participant, computer, observer = (
        sc2api_pb2.Participant,
        sc2api_pb2.Computer,
        sc2api_pb2.Observer,
    )
    error = sc2api_pb2.ResponseCreateGame
    assert _create_watched(client, computer, computer).error == error.InvalidPlayerSetup
    answer = _create_watched(client, participant, computer, observer)
    assert answer.error == error.InvalidPlayerSetup
    _create_watched(client, computer, computer, observer)
    assert _watch(client, 3).error == (
        sc2api_pb2.ResponseJoinGame.InvalidObservedPlayerId
    )
    join = sc2api_pb2.RequestJoinGame(race=1, options=games.replay_options())
    answer = client.ask(join_game=join).join_game
    assert answer.error == sc2api_pb2.ResponseJoinGame.FeatureUnsupported
    _create_watched(client, participant, computer)
    assert _watch(client, 1).error == sc2api_pb2.ResponseJoinGame.FeatureUnsupported


def test_a_game_that_nobody_joined_can_be_created_anew(client):
    _create_watched(client, sc2api_pb2.Participant, sc2api_pb2.Computer)
    assert client.status == INIT
    assert client.create().player_id == 1

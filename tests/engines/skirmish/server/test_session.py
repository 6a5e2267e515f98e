"""A session: states, errors, and the course of a replay and of a game."""

import gc
import weakref

import pytest

from starmill.converters.protos import common_pb2, raw_pb2, sc2api_pb2
from starmill.engines.skirmish.server import session
from starmill.engines.skirmish.simulation import game, rules
from tests.factories import games

LAUNCHED, INIT, IN_GAME, IN_REPLAY, ENDED = range(1, 6)


@pytest.fixture(scope="module")
def played():
    return games.played()


@pytest.fixture
def client():
    return games.LocalClient()


# Replays


def test_a_replay_goes_from_loop_0_to_its_result(client, played):
    answer = client.start_replay(played.replay)
    assert not answer.HasField("error")
    assert client.status == IN_REPLAY
    assert client.observe().observation.game_loop == 0
    client.step(played.loops - 1)
    last = client.observe()
    assert (last.observation.game_loop, len(last.player_result)) == (
        played.loops - 1,
        0,
    )
    client.step(500)
    end = client.observe()
    assert end.observation.game_loop == played.loops
    assert client.status == ENDED
    results = {r.player_id: r.result for r in end.player_result}
    assert results == {1: sc2api_pb2.Victory, 2: sc2api_pb2.Defeat}


def test_stepping_past_the_end_is_an_error_text(client, played):
    client.start_replay(played.replay)
    client.step(played.loops)
    assert list(client.step().error) == ["Game has already ended"]
    assert client.status == ENDED


def test_a_step_of_0_changes_nothing(client, played):
    client.start_replay(played.replay)
    before = client.observe()
    assert client.step(0).step.simulation_loop == 0
    assert client.observe().observation == before.observation


def _general(ability):
    """Returns the general id of an ability: reports name the units' own abilities."""
    return int(rules.ability_rules()["general"][ability]) or ability


@pytest.mark.parametrize("player", [1, 2])
def test_actions_are_reported_on_the_loop_after_theirs(client, played, player):
    client.start_replay(played.replay, player)
    client.observe()
    reported = {}
    for loop in range(1, 401):
        client.step()
        for action in client.observe().actions:
            command = action.action_raw.unit_command
            if action.action_raw.HasField("unit_command"):
                reported.setdefault(loop, []).append(
                    (_general(command.ability_id), tuple(command.unit_tags))
                )
    expected = {}
    for loop, items in played.inputs.items():
        for item in items:
            if (
                isinstance(item, game.UnitCommand)
                and item.player == player
                and loop < 400
            ):
                expected.setdefault(loop + 1, []).append(
                    (_general(item.ability_id), item.unit_tags)
                )
    assert expected
    assert reported == expected


def test_both_players_see_the_game_that_was_played(played):
    for player in (1, 2):
        client = games.LocalClient()
        client.start_replay(played.replay, player)
        for loop in (100, 700, 1400):
            client.step(loop - client.observe().observation.game_loop)
            assert client.session._play.game.state_digest() == played.digests[loop]
            common = client.observe().observation.player_common
            assert common.player_id == player


def test_replay_info_tells_ratings_races_and_results(client, played):
    info = client.ask(
        replay_info=sc2api_pb2.RequestReplayInfo(replay_data=played.replay)
    ).replay_info
    assert info.map_name == "Skirmish Amber Basin"
    assert info.game_version == "4.9.2.74741"
    assert info.base_build == 74741
    assert info.game_duration_loops == played.loops
    assert [p.player_mmr for p in info.player_info] == [4100, 4200]
    assert [p.player_info.race_actual for p in info.player_info] == [1, 2]
    assert info.local_map_path == "Skirmish/AmberBasin.SC2Map"


def test_a_replay_of_the_real_game_is_described_but_not_played(client, shared):
    data = (shared / "replays/a63c91985a28e732e16ba863659af674.SC2Replay").read_bytes()
    info = client.ask(replay_info=sc2api_pb2.RequestReplayInfo(replay_data=data))
    assert info.replay_info.map_name == "Acropolis LE"
    answer = client.start_replay(data)
    assert answer.error == sc2api_pb2.ResponseStartReplay.LaunchError
    assert "real game" in answer.error_details
    assert client.status == LAUNCHED


def test_replays_that_cannot_be_started_say_why(client, played):
    error = sc2api_pb2.ResponseStartReplay
    other = games.LocalClient(version="4.8.2")
    assert other.start_replay(played.replay).error == error.LaunchError
    assert client.start_replay(b"nonsense").error == error.InvalidReplayData
    assert client.start_replay(played.replay, 3).error == error.InvalidObservedPlayerId
    bare = client.ask(start_replay=sc2api_pb2.RequestStartReplay()).start_replay
    assert bare.error == error.MissingReplay
    no_file = sc2api_pb2.RequestStartReplay(replay_path="/nowhere.SC2Replay")
    answer = client.ask(start_replay=no_file).start_replay
    assert answer.error == error.InvalidReplayPath
    no_options = sc2api_pb2.RequestStartReplay(replay_data=played.replay)
    answer = client.ask(start_replay=no_options).start_replay
    assert answer.error == error.MissingOptions
    wrong_map = client.start_replay(played.replay, map_data=b"another map")
    assert wrong_map.error == error.InvalidMapData


def test_a_process_plays_one_replay_after_another(client, played):
    client.start_replay(played.replay, 1)
    client.step(100)
    assert not client.start_replay(played.replay, 2).HasField("error")
    assert client.observe().observation.game_loop == 0
    assert client.observe().observation.player_common.player_id == 2


# Games


def test_requests_in_the_wrong_state_are_error_texts(client):
    for kind in ("step", "observation", "game_info", "data", "query", "save_replay"):
        request = sc2api_pb2.Request()
        getattr(request, kind).SetInParent()
        answer = sc2api_pb2.Response.FromString(client.session.answer(request))
        assert list(answer.error) == ["Not in a game"], kind
    assert client.ask().error == ["expected a request of the protocol, found none"]
    assert client.status == LAUNCHED


def test_a_game_against_the_computer(client):
    assert client.create().player_id == 1
    assert client.status == IN_GAME
    info = client.ask(game_info=sc2api_pb2.RequestGameInfo()).game_info
    assert [p.type for p in info.player_info] == [
        sc2api_pb2.Participant,
        sc2api_pb2.Computer,
    ]
    assert not info.player_info[1].HasField("race_actual")
    assert (info.start_raw.map_size.x, info.start_raw.map_size.y) == (120, 120)
    worker = next(
        u for u in client.observe().observation.raw_data.units if u.unit_type == 45
    )
    command = raw_pb2.ActionRawUnitCommand(
        ability_id=16,
        unit_tags=[worker.tag],
        target_world_space_pos=common_pb2.Point2D(x=40.3, y=40.7),
    )
    action = sc2api_pb2.Action(action_raw=raw_pb2.ActionRaw(unit_command=command))
    result = client.ask(action=sc2api_pb2.RequestAction(actions=[action])).action
    assert list(result.result) == [1]
    client.step()
    seen = client.observe()
    assert [a.action_raw.unit_command.unit_tags[0] for a in seen.actions] == [
        worker.tag
    ]
    moved = next(u for u in seen.observation.raw_data.units if u.tag == worker.tag)
    assert moved.orders[0].ability_id == 16
    assert moved.is_selected
    client.step(1)
    # The game itself centres the camera on loop 1, as the real game does.
    (centring,) = client.observe().actions
    assert centring.game_loop == 1
    camera = centring.action_raw.camera_move.center_world_space
    hall = next(u for u in seen.observation.raw_data.units if u.unit_type == 18)
    assert (camera.x, camera.y) == (hall.pos.x, hall.pos.y)
    client.step(7)
    assert not client.observe().actions


def _command(client, unit_type, ability, *, point=None, **options):
    seen = client.observe().observation.raw_data.units
    unit = next(u for u in seen if u.unit_type == unit_type and u.alliance == 1)
    command = raw_pb2.ActionRawUnitCommand(ability_id=ability, unit_tags=[unit.tag])
    if point is not None:
        command.target_world_space_pos.x, command.target_world_space_pos.y = point
    action = sc2api_pb2.Action(action_raw=raw_pb2.ActionRaw(unit_command=command))
    answer = client.ask(action=sc2api_pb2.RequestAction(actions=[action])).action
    return unit.tag, list(answer.result)


def test_refused_commands_are_answered_at_once_and_not_played(client):
    client.create()
    _, results = _command(client, 45, 380)  # stim of a worker
    assert results == [2]
    client.step()
    seen = client.observe()
    assert not seen.action_errors
    assert not seen.actions


def test_what_fails_later_is_an_action_error(client):
    client.create()
    client.step()
    client.observe()
    for _ in range(2):  # the money is enough for one
        assert _command(client, 18, 524)[1] == [1]
    client.step()
    (error,) = client.observe().action_errors
    assert (error.ability_id, error.result) == (524, 9)


@pytest.mark.parametrize("affects", [True, False])
def test_raw_commands_change_the_selection_only_if_they_may(client, affects):
    client.create(raw_affects_selection=affects)
    hall, _ = _command(client, 18, 524)
    client.step()
    worker, _ = _command(client, 45, 16, point=(40.0, 40.0))
    client.step()
    units = client.observe().observation.raw_data.units
    selected = {unit.tag for unit in units if unit.is_selected}
    assert selected == ({worker} if affects else set())
    assert next(u for u in units if u.tag == worker).orders[0].ability_id == 16
    reported = [a for a in client.observe().actions if a.action_raw.unit_command]
    assert len(reported) <= 2


def test_a_hidden_unit_is_listed_without_details_if_the_client_asks(client):
    client.create()
    enemies = [
        unit
        for unit in client.observe(disable_fog=True).observation.raw_data.units
        if unit.alliance == 4
    ]
    assert len(enemies) >= 13
    assert {(u.display_type, u.cloak, u.health) for u in enemies} == {(3, 0, 0.0)}


@pytest.mark.parametrize("build", [sc2api_pb2.Rush, sc2api_pb2.Air])
def test_the_computer_plays_the_build_asked_for(client, build):
    client.create(ai_build=build)
    info = client.ask(game_info=sc2api_pb2.RequestGameInfo()).game_info
    assert info.player_info[1].ai_build == build
    client.step(60)
    styles = [bot.style for bot in client.session._play._bots.values()]
    assert styles == [{2: "rush", 6: "air"}[build]]
    data = client.ask(save_replay=sc2api_pb2.RequestSaveReplay()).save_replay.data
    other = games.LocalClient()
    other.start_replay(data)
    info = other.ask(game_info=sc2api_pb2.RequestGameInfo()).game_info
    assert info.player_info[1].ai_build == build


def test_a_saved_game_plays_again(client):
    client.create(seed=11)
    client.step(300)
    digest = client.session._play.game.state_digest()
    data = client.ask(save_replay=sc2api_pb2.RequestSaveReplay()).save_replay.data
    other = games.LocalClient()
    assert not other.start_replay(data).HasField("error")
    other.step(299)
    other.step(1)
    assert other.status == ENDED
    assert other.session._play.game.state_digest() == digest
    assert other.observe().player_result[0].result == sc2api_pb2.Undecided


def test_leaving_and_restarting(client):
    client.create(seed=4)
    first = client.observe().observation
    client.step(50)
    answer = client.ask(restart_game=sc2api_pb2.RequestRestartGame()).restart_game
    assert not answer.HasField("error")
    assert client.observe().observation == first
    client.ask(leave_game=sc2api_pb2.RequestLeaveGame())
    assert client.status == LAUNCHED
    assert client.step().error == ["Not in a game"]


def test_games_that_cannot_be_created_say_why(client):
    error = sc2api_pb2.ResponseCreateGame

    def create(**fields):
        request = sc2api_pb2.RequestCreateGame(**fields)
        return client.ask(create_game=request).create_game

    path = sc2api_pb2.LocalMap(map_path="Melee/Simple64.SC2Map")
    one = [sc2api_pb2.PlayerSetup(type=sc2api_pb2.Participant)]
    computer = [sc2api_pb2.PlayerSetup(type=sc2api_pb2.Computer)]
    mini = sc2api_pb2.LocalMap(map_path="mini_games/DefeatRoaches.SC2Map")
    assert create().error == error.MissingMap
    assert create(local_map=path).error == error.MissingPlayerSetup
    for players in (computer, one * 3):
        answer = create(local_map=path, player_setup=players)
        assert answer.error == error.InvalidPlayerSetup
    answer = create(local_map=mini, player_setup=one + computer)
    assert answer.error == error.InvalidPlayerSetup
    unknown = sc2api_pb2.LocalMap(map_path="Nowhere.SC2Map")
    assert create(local_map=unknown, player_setup=one).error == error.InvalidMapPath
    broken = sc2api_pb2.LocalMap(map_path="a", map_data=b"x")
    assert create(local_map=broken, player_setup=one).error == error.InvalidMapData
    assert create(battlenet_map_name="Nowhere").error == error.InvalidMapName
    assert client.status == LAUNCHED


def _play_alone(client, map_path):
    """Creates and joins a game of one participant."""
    create = sc2api_pb2.RequestCreateGame(
        local_map=sc2api_pb2.LocalMap(map_path=map_path),
        player_setup=[sc2api_pb2.PlayerSetup(type=sc2api_pb2.Participant)],
        random_seed=3,
    )
    assert not client.ask(create_game=create).create_game.HasField("error")
    join = sc2api_pb2.RequestJoinGame(race=1, options=games.replay_options())
    assert client.ask(join_game=join).join_game.player_id == 1


def test_one_player_can_play_alone(client):
    _play_alone(client, "Melee/Simple64.SC2Map")
    info = client.ask(game_info=sc2api_pb2.RequestGameInfo()).game_info
    assert [player.player_id for player in info.player_info] == [1]
    client.step(6000)
    assert client.status == IN_GAME
    observation = client.observe().observation
    assert {u.owner for u in observation.raw_data.units} == {1, 16}
    client.ask(leave_game=sc2api_pb2.RequestLeaveGame())
    assert client.status == LAUNCHED


def test_a_mini_game_reports_its_own_score_and_its_replay_plays_again(client):
    _play_alone(client, "mini_games/DefeatRoaches.SC2Map")
    first = client.observe().observation
    assert first.score.score_type == 1  # Curriculum
    assert first.score.score == 0
    roach = next(u for u in first.raw_data.units if u.unit_type == 110)
    marines = [u.tag for u in first.raw_data.units if u.unit_type == 48]
    command = raw_pb2.ActionRawUnitCommand(
        ability_id=23, unit_tags=marines, target_unit_tag=roach.tag
    )
    action = sc2api_pb2.Action(action_raw=raw_pb2.ActionRaw(unit_command=command))
    client.ask(action=sc2api_pb2.RequestAction(actions=[action]))
    client.step(1950)
    end = client.observe()
    assert client.status == ENDED
    assert [result.player_id for result in end.player_result] == [1]
    score = end.observation.score.score
    assert score != 0
    saved = client.ask(save_replay=sc2api_pb2.RequestSaveReplay()).save_replay.data
    again = games.LocalClient()
    assert not again.start_replay(saved).HasField("error")
    again.step(1950)
    assert again.observe().observation.score.score == score


def test_a_mini_game_starts_differently_each_time_it_is_restarted(client):
    _play_alone(client, "mini_games/CollectMineralShards.SC2Map")
    first = client.observe().observation
    client.ask(restart_game=sc2api_pb2.RequestRestartGame())
    second = client.observe().observation
    assert len(first.raw_data.units) == len(second.raw_data.units) == 22
    assert first != second


def test_the_end_of_a_game_is_told_and_then_final(client):
    client.create()
    debug = sc2api_pb2.RequestDebug()
    debug.debug.add().end_game.end_result = 2
    client.ask(debug=debug)
    assert client.status == ENDED
    end = client.observe()
    assert {r.player_id: r.result for r in end.player_result} == {1: 1, 2: 2}
    refused = client.ask(action=sc2api_pb2.RequestAction())
    assert refused.error == ["Not supported if game has already ended"]


def test_queries_and_data(client):
    client.create()
    seen = client.observe().observation
    hall = next(u for u in seen.raw_data.units if u.unit_type == 18)
    query = sc2api_pb2.Request().query
    query.abilities.add(unit_tag=hall.tag)
    query.pathing.add(
        unit_tag=hall.tag, end_pos=common_pb2.Point2D(x=hall.pos.x + 6, y=hall.pos.y)
    )
    query.placements.add(
        ability_id=319, target_pos=common_pb2.Point2D(x=hall.pos.x, y=hall.pos.y)
    )
    answer = client.ask(query=query).query
    assert 524 in [a.ability_id for a in answer.abilities[0].abilities]  # train SCV
    assert answer.pathing[0].distance >= 6
    assert answer.placements[0].result != 1
    data = client.ask(
        data=sc2api_pb2.RequestData(ability_id=True, unit_type_id=True, upgrade_id=True)
    ).data
    assert data.units[48].name == "Marine"
    assert data.units[48].mineral_cost == 50
    assert data.abilities[524].ability_id == 524


def test_every_request_of_the_protocol_has_an_answer():
    kinds = {
        f.name for f in sc2api_pb2.Request.DESCRIPTOR.oneofs_by_name["request"].fields
    }
    assert kinds == set(session._HANDLERS) | {"ping", "quit"}


@pytest.mark.parametrize("is_live", [True, False])
def test_a_game_is_freed_as_soon_as_it_is_left(is_live):
    """A game has eight megabytes. In a cycle of references, dozens of them piled up."""
    client = games.LocalClient()
    gc.disable()
    try:
        if is_live:
            client.create()
        else:
            client.start_replay(games.played().replay)
        client.step(30)
        client.observe()
        left = weakref.ref(client.session._play.game)
        client.ask(leave_game=sc2api_pb2.RequestLeaveGame())
        assert left() is None
    finally:
        gc.enable()

"""A short live game against the easiest computer player, as evaluations start and end theirs.

In: a game. Out: entries in the ledger. StarCraft II needs a map in the installation's Maps folder;
without one, `live.maps` does not hold, and the rest is not checked.
"""

from starmill.converters.protos import common_pb2, error_pb2, raw_pb2, sc2api_pb2
from starmill.engines import playback
from starmill.engines.conformance.laboratory import Bench, Laboratory
from starmill.engines.game_process import Executable
from starmill.engines.replays import replay_file
from starmill.schema import errors
from starmill.schema.settings import ConverterSettings

ASSUMPTIONS = (
    "live.maps",
    "live.status",
    "live.results",
    "live.action_loop",
    "live.replay",
)
# Evaluations play on these; other maps can be melee maps or not.
_PREFERRED = ("Skirmish/", "Ladder")
_REQUEST_SECONDS = 300.0
_BEFORE_LOOPS, _AFTER_LOOPS = 20, 10
_MOVE, _SEED = 16, 7
_MOVE_CELLS = 3.0


def check(lab: Laboratory, executable: Executable, settings: ConverterSettings) -> None:
    """Plays a game of some thirty loops with one command, and reads its replay."""
    with lab.lease(executable) as (bench,):
        if not _create(lab, bench):
            return
        bench.transcript.expect_status("live.status", sc2api_pb2.init_game)
        _join(bench, settings)
        bench.transcript.expect_status("live.status", sc2api_pb2.in_game)
        _play(lab, bench)
        _save(lab, bench)
        _call(bench, leave_game=sc2api_pb2.RequestLeaveGame())
        bench.transcript.expect_status("live.status", sc2api_pb2.launched)


def _call(bench: Bench, **request: object) -> sc2api_pb2.Response:
    bench.client.call(sc2api_pb2.Request(**request), _REQUEST_SECONDS)  # type: ignore[arg-type]  # one field
    return bench.transcript.answer


def _create(lab: Laboratory, bench: Bench) -> bool:
    answer = _call(bench, available_maps=sc2api_pb2.RequestAvailableMaps())
    paths = sorted(
        answer.available_maps.local_map_paths,
        key=lambda path: (not path.startswith(_PREFERRED), path),
    )
    if not lab.ledger.expect("live.maps", bool(paths), "the game lists no local map"):
        return False
    create = sc2api_pb2.RequestCreateGame(
        local_map=sc2api_pb2.LocalMap(map_path=paths[0]),
        disable_fog=False,
        realtime=False,
        random_seed=_SEED,
    )
    create.player_setup.add(type=sc2api_pb2.Participant)
    create.player_setup.add(
        type=sc2api_pb2.Computer,
        race=common_pb2.Zerg,
        difficulty=sc2api_pb2.VeryEasy,
    )
    created = _call(bench, create_game=create).create_game
    name = sc2api_pb2.ResponseCreateGame.Error.Name(created.error)
    return lab.ledger.expect(
        "live.maps",
        not created.HasField("error"),
        f"the first listed map cannot be played: {name}",
    )


def _join(bench: Bench, settings: ConverterSettings) -> None:
    join = sc2api_pb2.RequestJoinGame(
        race=common_pb2.Terran,
        options=playback.interface_options(settings),
        player_name="conformance",
    )
    answer = _call(bench, join_game=join)
    if answer.join_game.HasField("error"):
        name = sc2api_pb2.ResponseJoinGame.Error.Name(answer.join_game.error)
        raise errors.EngineError(f"the game cannot be joined: {name}")


def _observe(bench: Bench) -> sc2api_pb2.ResponseObservation:
    bench.client.send_observation()
    bench.client.receive()
    return bench.transcript.answer.observation


def _play(lab: Laboratory, bench: Bench) -> None:
    bench.client.send_step(_BEFORE_LOOPS)
    bench.client.receive()
    before = _observe(bench).observation
    own = [unit for unit in before.raw_data.units if unit.alliance == raw_pb2.Self]
    # Buildings do not move; any small unit of the opening does.
    worker = min(own, key=lambda unit: (unit.radius, unit.tag))
    action = sc2api_pb2.RequestAction()
    command = action.actions.add().action_raw.unit_command
    command.ability_id = _MOVE
    command.unit_tags.append(worker.tag)
    command.target_world_space_pos.x = worker.pos.x + _MOVE_CELLS
    command.target_world_space_pos.y = worker.pos.y
    results = list(_call(bench, action=action).action.result)
    lab.ledger.expect(
        "live.results",
        results == [error_pb2.Success],
        f"expected one result, Success, found {results}",
    )
    bench.client.send_step(_AFTER_LOOPS)
    bench.client.receive()
    reports = [
        report.game_loop
        for report in _observe(bench).actions
        if report.action_raw.unit_command.unit_tags[:] == [worker.tag]
    ]
    lab.ledger.expect(
        "live.action_loop",
        reports == [before.game_loop],
        f"expected one action, of loop {before.game_loop}; found actions of loops "
        f"{reports}",
    )


def _save(lab: Laboratory, bench: Bench) -> None:
    answer = _call(bench, save_replay=sc2api_pb2.RequestSaveReplay())
    try:
        events = replay_file.open_replay(answer.save_replay.data).game_events()
        loops = {event.loop for event in events}
        is_whole, detail = (
            _BEFORE_LOOPS in loops,
            f"events on loops {sorted(loops)[:20]}",
        )
    except errors.ReplayError as error:
        is_whole, detail = False, str(error)
    lab.ledger.expect(
        "live.replay",
        is_whole,
        f"expected a replay with an event on loop {_BEFORE_LOOPS}; {detail}",
    )

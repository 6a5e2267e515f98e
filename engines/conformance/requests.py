"""One process's answers to single requests: version, refusals, descriptions, ids, quitting.

In: a fresh game and a replay of its version. Out: entries in the ledger, and the times that a
process takes to start and to quit. Sends through the pipeline's client.
"""

import contextlib
import time

from starmill.converters.protos import query_pb2, raw_pb2, sc2api_pb2
from starmill.engines.client import Client
from starmill.engines.conformance import comparison
from starmill.engines.conformance.laboratory import Bench, Laboratory
from starmill.engines.conformance.ledger import first_difference
from starmill.engines.conformance.recording import Replay
from starmill.engines.game_process import Executable, GameProcess
from starmill.engines.playback import Info, Player
from starmill.schema import errors, vocab
from starmill.schema.settings import ConverterSettings

ASSUMPTIONS = (
    "process.version",
    "process.quits",
    "status.launched",
    "refusal.damaged_info",
    "refusal.damaged_start",
    "refusal.wrong_state",
    "info.players",
    "info.version",
    "info.map",
    "step.observing",
    "geometry.map_size",
    "ids.abilities",
    "ids.queries",
)
_REQUEST_SECONDS = 60.0
_QUIT_SECONDS = 10.0
_QUERIED_UNITS = 8
_MOST = 0.9


def check(
    lab: Laboratory,
    executable: Executable,
    replay: Replay,
    settings: ConverterSettings,
) -> dict[str, float]:
    """Runs all single requests in one new process, and returns what it measured."""
    with lab.lease(executable, fresh=True) as (bench,):
        _check_version(lab, bench, executable)
        _check_refusals(lab, bench, replay)
        player = Player(bench.game)
        info = player.load(replay.data, 1, settings)
        _check_description(lab, info, replay, executable)
        _check_observing(lab, bench, player)
        _check_ids(lab, bench)
        quit_seconds = _quit(bench.game, bench.client)
        lab.ledger.expect(
            "process.quits",
            quit_seconds is not None,
            f"the process still ran {_QUIT_SECONDS:g} s after quit",
        )
        measured = {"start_seconds": bench.start_seconds}
        if quit_seconds is not None:
            measured["quit_seconds"] = quit_seconds
        return measured


def _check_version(lab: Laboratory, bench: Bench, executable: Executable) -> None:
    answer = bench.client.call(
        sc2api_pb2.Request(ping=sc2api_pb2.RequestPing()), _REQUEST_SECONDS
    )
    bench.transcript.expect_status("status.launched", sc2api_pb2.launched)
    ping = sc2api_pb2.ResponsePing.FromString(answer)
    expected = [executable.game_version, executable.base_build]
    answered = [".".join(ping.game_version.split(".")[:3]), ping.base_build]
    if executable.data_version is not None:
        expected.append(executable.data_version.upper())
        answered.append(ping.data_version.upper())
    lab.ledger.expect(
        "process.version",
        expected == answered,
        f"ping: expected {expected}, found {answered}",
    )


def _check_refusals(lab: Laboratory, bench: Bench, replay: Replay) -> None:
    client, transcript = bench.client, bench.transcript
    half = replay.data[: len(replay.data) // 2]
    request = sc2api_pb2.RequestStartReplay(replay_data=half, observed_player_id=1)
    with transcript.errors_expected():
        with contextlib.suppress(errors.EngineError):
            client.send_step(1)
            client.receive()
        lab.ledger.expect(
            "refusal.wrong_state",
            bool(transcript.answer.error),
            "a step before any replay was not refused",
        )
        for name, call in (
            ("refusal.damaged_info", lambda: client.replay_info(half)),
            ("refusal.damaged_start", lambda: client.start_replay(request)),
        ):
            is_refused, detail = False, ""
            try:
                call()
                detail = "it was accepted"
            except errors.ReplayError:
                is_refused = True
            except errors.EngineError as error:
                detail = str(error)
            lab.ledger.expect(
                name,
                is_refused,
                f"a replay cut in half: expected an error in the answer; {detail}",
            )
    transcript.totals.clear()  # the refused step is none
    client.replay_info(replay.data)
    transcript.expect_status("status.launched", sc2api_pb2.launched)


def _check_description(
    lab: Laboratory, info: Info, replay: Replay, executable: Executable
) -> None:
    described = sc2api_pb2.ResponseReplayInfo.FromString(info.replay_info)
    answered = {
        entry.player_info.player_id: entry.player_mmr for entry in described.player_info
    }
    lab.ledger.expect(
        "info.players",
        answered == replay.mmrs,
        f"expected MMRs by player id {replay.mmrs}, found {answered}",
    )
    facts = [replay.base_build, replay.duration_loops]
    stated = [described.base_build, described.game_duration_loops]
    lab.ledger.expect(
        "info.version",
        facts == stated,
        f"expected base build and duration {facts}, found {stated}",
    )
    # A path that leads nowhere has made `Player.load` raise already.
    lab.ledger.expect("info.map", True, "")
    raw = sc2api_pb2.ResponseGameInfo.FromString(info.game_info).start_raw
    width, height = raw.map_size.x, raw.map_size.y
    low, high = raw.playable_area.p0, raw.playable_area.p1
    lab.ledger.expect(
        "geometry.map_size",
        0 <= low.x < high.x <= width and 0 <= low.y < high.y <= height,
        f"map {width} x {height}, playable area from ({low.x}, {low.y}) to "
        f"({high.x}, {high.y})",
    )


def _check_observing(lab: Laboratory, bench: Bench, player: Player) -> None:
    messages = []
    for _ in range(2):
        player.observe()
        message = sc2api_pb2.ResponseObservation()
        message.CopyFrom(bench.transcript.answer.observation)
        for field in ("actions", "action_errors", "chat"):
            message.ClearField(field)
        message.observation.raw_data.ClearField("event")
        messages.append(message)
    one, two = (message.SerializeToString(deterministic=True) for message in messages)
    place = comparison.place_of(*messages)
    lab.ledger.expect(
        "step.observing",
        one == two,
        f"loop 0 observed twice: {place} differs",
        None if one == two else first_difference(one, two, place),
    )


def _check_ids(lab: Laboratory, bench: Bench) -> None:
    units = bench.transcript.answer.observation.observation.raw_data.units
    tags = [unit.tag for unit in units if unit.alliance == raw_pb2.Self]
    request = sc2api_pb2.Request(data=sc2api_pb2.RequestData(ability_id=True))
    answer = bench.client.call(request, _REQUEST_SECONDS)
    listed = {
        entry.ability_id
        for entry in sc2api_pb2.ResponseData.FromString(answer).abilities
    }
    needed = {function.ability_id for function in vocab.functions()} - {0}
    missing = sorted(needed - listed)
    lab.ledger.expect(
        "ids.abilities",
        len(missing) <= (1 - _MOST) * len(needed),
        f"data lacks {len(missing)} of {len(needed)} abilities: {missing[:20]}",
    )
    query = query_pb2.RequestQuery()
    for tag in tags[:_QUERIED_UNITS]:
        query.abilities.add(unit_tag=tag)
    answer = bench.client.call(sc2api_pb2.Request(query=query), _REQUEST_SECONDS)
    answered = [
        entry.unit_tag for entry in query_pb2.ResponseQuery.FromString(answer).abilities
    ]
    lab.ledger.expect(
        "ids.queries",
        answered == tags[:_QUERIED_UNITS],
        f"asked about {len(tags[:_QUERIED_UNITS])} units, found answers about {len(answered)}, "
        "or in another order",
    )


def _quit(game: GameProcess, client: Client) -> float | None:
    """Asks the process to quit; returns the seconds until it has ended, None if it did not."""
    began = time.perf_counter()
    client.close()
    while time.perf_counter() - began < _QUIT_SECONDS:
        if game.exit_status() is not None:
            return time.perf_counter() - began
        time.sleep(0.01)
    return None

"""One client's requests: which are allowed in which state, and what they do.

In: `sc2api.Request`s. Out: the bytes of the Response, without id and status. States, errors and
their texts are those of the real game, as far as its clients depend on them. Must not know:
sockets.
"""

import time
from collections.abc import Callable

from starmill.converters.protos import sc2api_pb2
from starmill.engines.skirmish import versions, warmup
from starmill.engines.skirmish.observation import (
    feature_layers,
    selection_panels,
)
from starmill.engines.skirmish.observation.observer import Interface, Observer
from starmill.engines.skirmish.server import (
    action_reader,
    action_report,
    debug_commands,
    faults,
    game_data,
    game_info,
    live_game,
    lobby,
    map_files,
    queries,
    replay_playback,
    replay_requests,
)
from starmill.engines.skirmish.simulation import maps, records
from starmill.engines.skirmish.simulation.game import Select
from starmill.schema import errors, protobuf
from starmill.schema.game_constants import LOOPS_PER_SECOND

LAUNCHED, INIT, IN_GAME, IN_REPLAY, ENDED = 1, 2, 3, 4, 5
_STATE_NAMES: dict[int, str] = {
    int(number): name for name, number in sc2api_pb2.Status.items()
}
_UI_DATA = 8  # Observation.ui_data
_OBSERVATION_FIELD = 10  # Response.observation
_STUB_LOOP = 0xFFFFFFFF  # the real game's, in observations that are stubs
_PLAYING = (IN_GAME, IN_REPLAY, ENDED)
_ANY = (LAUNCHED, INIT, IN_GAME, IN_REPLAY, ENDED)
_MAX_STEP_LOOPS = 1_000_000
# Raw actions that select units, and then restore the selection unless it may change.
_SELECTING = frozenset(("unit_command", "toggle_autocast"))


class RequestError(Exception):
    """A request that cannot be answered; the client gets the text."""


class Session:
    """The state of one client's requests: what is created, and what is being played.

    Attributes:
        status: the value of sc2api's Status that each response carries.
    """

    def __init__(
        self,
        *,
        version: versions.Version,
        maps_dir: str,
        injector: faults.FaultInjector,
    ) -> None:
        warmup.ready()
        self.status = LAUNCHED
        self._version = version
        self._maps_dir = maps_dir
        self._injector = injector
        self._created: sc2api_pb2.RequestCreateGame | None = None
        self._created_map: maps.GameMap | None = None
        self._games = 0
        self._play: live_game.LiveGame | replay_playback.ReplayPlayback | None = None
        self._observer: Observer | None = None
        self._reader: action_reader.ActionReader | None = None
        self._options = sc2api_pb2.InterfaceOptions()
        self._disable_fog = False
        self._chat: list[sc2api_pb2.ChatReceived] = []
        self._chat_out: list[str] = []
        self._report: action_report.ActionReport | None = None
        self._saved_maps: dict[str, bytes] = {}
        self._clock: float | None = None

    def close(self) -> None:
        """Ends the game or replay, if there is one."""
        if isinstance(self._play, live_game.LiveGame):
            self._play.close()
        self._play = None

    def answer(self, request: sc2api_pb2.Request) -> bytes:
        """Returns the bytes of the Response to one request, without id and status."""
        kind = request.WhichOneof("request")
        handler = _HANDLERS.get(kind or "")
        try:
            if kind is None or handler is None:
                raise RequestError(
                    f"expected a request of the protocol, found {kind or 'none'}"
                )
            states, method = handler
            self._check_state(kind, states)
            self._keep_time()
            return method(self, request)
        # UnicodeDecodeError: a string that is not UTF-8.
        except (RequestError, UnicodeDecodeError) as error:
            return sc2api_pb2.Response(error=[str(error)]).SerializeToString()

    def _check_state(self, kind: str, states: tuple[int, ...]) -> None:
        if self.status in states:
            return
        if self.status == ENDED:
            texts = {"step": "Game has already ended"}
            default = "Not supported if game has already ended"
            raise RequestError(texts.get(kind, default))
        if self.status == LAUNCHED and kind not in ("create_game", "join_game"):
            raise RequestError("Not in a game")
        state = _STATE_NAMES[self.status]
        raise RequestError(f"{kind} is not supported in state {state}")

    def _keep_time(self) -> None:
        """Plays the loops that are due, if the game runs in real time."""
        if self._clock is None or self.status != IN_GAME or self._play is None:
            return
        due = int((time.monotonic() - self._clock) * LOOPS_PER_SECOND)
        self._advance(due - self._play.game.loop)

    @property
    def _playing(self) -> live_game.LiveGame | replay_playback.ReplayPlayback:
        if self._play is None:
            raise RequestError("Not in a game")
        return self._play

    # Starting and leaving

    def _available_maps(self, request: sc2api_pb2.Request) -> bytes:
        answer = sc2api_pb2.ResponseAvailableMaps(
            local_map_paths=sorted(map_files.files())
        )
        return sc2api_pb2.Response(available_maps=answer).SerializeToString()

    def _save_map(self, request: sc2api_pb2.Request) -> bytes:
        self._saved_maps[lobby.text(request.save_map.map_path)] = (
            request.save_map.map_data
        )
        answer = sc2api_pb2.ResponseSaveMap()
        return sc2api_pb2.Response(save_map=answer).SerializeToString()

    def _create_game(self, request: sc2api_pb2.Request) -> bytes:
        create = request.create_game
        answer = sc2api_pb2.ResponseCreateGame()
        error = sc2api_pb2.ResponseCreateGame
        self._leave_current()
        self.status = LAUNCHED
        game_map = lobby.find_map(create, self._saved_maps, self._maps_dir)
        if not isinstance(game_map, maps.GameMap):
            answer.error, answer.error_details = game_map
        elif not create.player_setup:
            answer.error = error.MissingPlayerSetup
        elif problem := lobby.setup_error(create, game_map):
            answer.error = error.InvalidPlayerSetup
            answer.error_details = problem
        else:
            self._created, self._created_map = create, game_map
            self.status = INIT
        return sc2api_pb2.Response(create_game=answer).SerializeToString()

    def _join_game(self, request: sc2api_pb2.Request) -> bytes:
        join = request.join_game
        answer = sc2api_pb2.ResponseJoinGame()
        error = sc2api_pb2.ResponseJoinGame
        if self._created is None and not join.HasField("server_ports"):
            # As in the real game, this is an error of the protocol's usage.
            raise RequestError("No game has been created, and there are no ports")
        if not join.HasField("options"):
            answer.error = error.MissingOptions
        elif not join.WhichOneof("participation"):
            answer.error = error.MissingParticipation
        elif (problem := lobby.render_error(join.options)) or (
            problem := lobby.observer_error(self._created, join)
        ):
            answer.error, answer.error_details = error.FeatureUnsupported, problem
        elif join.observed_player_id not in (records.WATCHER, 1, 2):
            answer.error = error.InvalidObservedPlayerId
        else:
            try:
                self._join(join)
                answer.player_id = self._playing.player
            except errors.StarmillError as failure:
                answer.error = error.NetworkError
                answer.error_details = str(failure)
        return sc2api_pb2.Response(join_game=answer).SerializeToString()

    def _join(self, join: sc2api_pb2.RequestJoinGame) -> None:
        if self._created is None or self._created_map is None:
            setup, player, peer = lobby.join(join)
        else:
            self._games += 1
            setup, player, peer = lobby.host(
                self._created, join, self._created_map, default_seed=self._games
            )
            realtime = self._created.realtime and peer is None
            self._clock = time.monotonic() if realtime else None
        self._injector.begin("", 0)
        self._play = live_game.LiveGame(
            setup, player, self._version, peer=peer, injector=self._injector
        )
        self._disable_fog = setup.disable_fog
        self._options = lobby.delivered(join.options)
        self._attach(player)
        self.status = IN_GAME

    def _attach(self, player: int) -> None:
        interface = Interface.from_options(self._options)
        game = self._playing.game
        self._observer = Observer(game, player, interface)
        pictures = feature_layers.Layers(
            game, player, interface.minimap, interface.screen, interface.camera_width
        )
        self._reader = action_reader.ActionReader(game, player, pictures)
        self._report = action_report.ActionReport(
            game, player, action_report.usable_layers(pictures)
        )
        self._chat, self._chat_out = [], []

    def _restart_game(self, request: sc2api_pb2.Request) -> bytes:
        answer = sc2api_pb2.ResponseRestartGame()
        if (
            not isinstance(self._play, live_game.LiveGame)
            or self._play.peer is not None
        ):
            answer.error = sc2api_pb2.ResponseRestartGame.LaunchError
            answer.error_details = "only games against the computer restart"
        else:
            self._play.start()
            self._attach(self._play.player)
            self._clock = time.monotonic() if self._clock is not None else None
            self.status = IN_GAME
        return sc2api_pb2.Response(restart_game=answer).SerializeToString()

    def _leave_game(self, request: sc2api_pb2.Request) -> bytes:
        self._leave_current()
        self.status = LAUNCHED
        answer = sc2api_pb2.ResponseLeaveGame()
        return sc2api_pb2.Response(leave_game=answer).SerializeToString()

    def _leave_current(self) -> None:
        if isinstance(self._play, live_game.LiveGame):
            self._play.leave()
            self._play.close()
        self._play, self._created, self._clock = None, None, None
        # These hold the game.
        self._observer, self._reader, self._report = None, None, None

    # Replays

    def _replay_info(self, request: sc2api_pb2.Request) -> bytes:
        answer = replay_requests.replay_info(request.replay_info)
        return sc2api_pb2.Response(replay_info=answer).SerializeToString()

    def _start_replay(self, request: sc2api_pb2.Request) -> bytes:
        start = request.start_replay
        opened = replay_requests.open_replay(start, self._version)
        if isinstance(opened, sc2api_pb2.ResponseStartReplay):
            return sc2api_pb2.Response(start_replay=opened).SerializeToString()
        self._leave_current()
        player = start.observed_player_id
        self._injector.begin(opened.sha256, player)
        self._play = replay_playback.ReplayPlayback(
            opened.recording, player, self._injector
        )
        self._disable_fog = start.disable_fog
        self._options = lobby.delivered(start.options)
        self._attach(player)
        self.status = ENDED if self._play.ended else IN_REPLAY
        answer = sc2api_pb2.ResponseStartReplay()
        return sc2api_pb2.Response(start_replay=answer).SerializeToString()

    def _save_replay(self, request: sc2api_pb2.Request) -> bytes:
        if not isinstance(self._play, live_game.LiveGame):
            raise RequestError("Not in a game")
        answer = sc2api_pb2.ResponseSaveReplay(data=self._play.replay())
        return sc2api_pb2.Response(save_replay=answer).SerializeToString()

    # Playing

    def _game_info(self, request: sc2api_pb2.Request) -> bytes:
        play = self._playing
        if isinstance(play, live_game.LiveGame):
            participants, plays = play.participants, play.plays
        else:
            participants, plays = play.recording.participants, False
        answer = game_info.game_info(
            play.game,
            participants,
            observer=play.player if plays else None,
            options=self._options,
        )
        return sc2api_pb2.Response(game_info=answer).SerializeToString()

    def _observation(self, request: sc2api_pb2.Request) -> bytes:
        play, observer, report = self._playing, self._observer, self._report
        if observer is None or report is None:
            raise RequestError("Not in a game")
        options = request.observation
        while (
            self._clock is not None
            and self.status == IN_GAME
            and play.game.loop < options.game_loop
        ):
            time.sleep(1.0 / LOOPS_PER_SECOND)
            self._keep_time()
        results = [
            sc2api_pb2.PlayerResult(
                player_id=player,
                result=game_info.RESULT_VALUES.get(text, sc2api_pb2.Undecided),
            )
            for player, text in sorted((play.results or {}).items())
        ]
        actions = report.actions(play.take_played())
        if results and self._injector.stub_at_end():
            stub = sc2api_pb2.ResponseObservation(
                actions=actions, player_result=results
            )
            stub.observation.game_loop = _STUB_LOOP
            return sc2api_pb2.Response(observation=stub).SerializeToString()
        refusals = play.take_errors() if isinstance(play, live_game.LiveGame) else []
        interface = selection_panels.interface(play.game, play.player)
        body = observer.observation(
            disable_fog=self._disable_fog,
            list_hidden=options.disable_fog,
            actions=actions,
            action_errors=action_report.reported_errors(refusals, play.player),
            chat=self._take_chat(),
            dead=play.take_dead(),
            results=results,
            ui=protobuf.bytes_field(_UI_DATA, interface.SerializeToString()),
            abilities=selection_panels.abilities(play.game, play.player),
        )
        return protobuf.bytes_field(_OBSERVATION_FIELD, body)

    def _take_chat(self) -> list[sc2api_pb2.ChatReceived]:
        play = self._play
        if isinstance(play, live_game.LiveGame) and play.peer is not None:
            self._chat += [
                sc2api_pb2.ChatReceived(player_id=3 - play.player, message=line)
                for line in play.peer.take_chat()
            ]
        chat, self._chat = self._chat, []
        return chat

    def _action(self, request: sc2api_pb2.Request) -> bytes:
        play, reader = self._play, self._reader
        if not isinstance(play, live_game.LiveGame) or reader is None:
            raise RequestError("Not in a game")
        answer = sc2api_pb2.ResponseAction()
        if not play.plays:
            raise RequestError("An observer has no units")
        for action in request.action.actions:
            before = reader.selection()
            inputs, result = reader.read(action)
            play.give(inputs, origin=action)
            raw = action.action_raw.WhichOneof("action")
            if inputs and raw in _SELECTING and not self._options.raw_affects_selection:
                play.give([Select(play.player, before)], implied=True)
            answer.result.append(result)  # type: ignore[arg-type]  # the enum's numbers
            if action.HasField("action_chat"):
                line = lobby.text(action.action_chat.message)
                self._chat_out.append(line)
                self._chat.append(
                    sc2api_pb2.ChatReceived(player_id=play.player, message=line)
                )
        return sc2api_pb2.Response(action=answer).SerializeToString()

    def _observer_action(self, request: sc2api_pb2.Request) -> bytes:
        play = self._playing
        if isinstance(play, live_game.LiveGame) and play.plays:
            raise RequestError("Only observers have these actions")
        for action in request.obs_action.actions:
            if action.HasField("player_perspective"):
                player = action.player_perspective.player_id
                if player in (1, 2):
                    play.player = player
                    self._attach(player)
        answer = sc2api_pb2.ResponseObserverAction()
        return sc2api_pb2.Response(obs_action=answer).SerializeToString()

    def _step(self, request: sc2api_pb2.Request) -> bytes:
        loops = request.step.count if request.step.HasField("count") else 1
        if self._clock is None:
            self._advance(min(loops, _MAX_STEP_LOOPS))
        answer = sc2api_pb2.ResponseStep(simulation_loop=self._playing.game.loop)
        return sc2api_pb2.Response(step=answer).SerializeToString()

    def _advance(self, loops: int) -> None:
        play = self._playing
        if isinstance(play, live_game.LiveGame):
            play.step(max(loops, 0), self._chat_out)
            self._chat_out = []
        else:
            play.step(loops)
        if self._reader is not None:
            self._reader.next_loop()
        if play.ended:
            self.status = ENDED

    def _data(self, request: sc2api_pb2.Request) -> bytes:
        answer = game_data.response(request.data)
        return sc2api_pb2.Response(data=answer).SerializeToString()

    def _query(self, request: sc2api_pb2.Request) -> bytes:
        play = self._playing
        answer = queries.response(play.game, play.player, request.query)
        return sc2api_pb2.Response(query=answer).SerializeToString()

    def _debug(self, request: sc2api_pb2.Request) -> bytes:
        play = self._play
        if not isinstance(play, live_game.LiveGame):
            raise RequestError("Not in a game")
        for command in request.debug.debug:
            debug_commands.apply(play, command)
        if play.ended:
            self.status = ENDED
        return sc2api_pb2.Response(debug=sc2api_pb2.ResponseDebug()).SerializeToString()

    def _map_command(self, request: sc2api_pb2.Request) -> bytes:
        answer = sc2api_pb2.ResponseMapCommand(
            error=sc2api_pb2.ResponseMapCommand.NoTriggerError
        )
        return sc2api_pb2.Response(map_command=answer).SerializeToString()

    def _quick(self, request: sc2api_pb2.Request) -> bytes:
        raise RequestError("quick save and load are not supported")


_HANDLERS: dict[
    str, tuple[tuple[int, ...], Callable[[Session, sc2api_pb2.Request], bytes]]
] = {
    "available_maps": (_ANY, Session._available_maps),
    "save_map": ((LAUNCHED, INIT), Session._save_map),
    # Also if a client that has gone created a game and nobody has joined it.
    "create_game": (_ANY, Session._create_game),
    "join_game": ((LAUNCHED, INIT), Session._join_game),
    "restart_game": ((IN_GAME, ENDED), Session._restart_game),
    "leave_game": ((IN_GAME, IN_REPLAY, ENDED), Session._leave_game),
    "replay_info": (_ANY, Session._replay_info),
    "start_replay": ((LAUNCHED, IN_GAME, IN_REPLAY, ENDED), Session._start_replay),
    "save_replay": (_PLAYING, Session._save_replay),
    "game_info": (_PLAYING, Session._game_info),
    "observation": (_PLAYING, Session._observation),
    "action": ((IN_GAME,), Session._action),
    "obs_action": ((IN_GAME, IN_REPLAY), Session._observer_action),
    "step": ((IN_GAME, IN_REPLAY), Session._step),
    "data": (_PLAYING, Session._data),
    "query": (_PLAYING, Session._query),
    "debug": ((IN_GAME,), Session._debug),
    "map_command": ((IN_GAME,), Session._map_command),
    "quick_save": ((IN_GAME,), Session._quick),
    "quick_load": ((IN_GAME,), Session._quick),
}

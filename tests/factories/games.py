"""A short recorded game and clients of the server, for the tests of server and replays."""

import contextlib
import dataclasses
import functools
import subprocess
import sys
import threading
import time

from websockets.sync.client import connect

from starmill.converters.protos import sc2api_pb2
from starmill.engines.skirmish import versions
from starmill.engines.skirmish.players import random_player
from starmill.engines.skirmish.replays import members
from starmill.engines.skirmish.replays.recorder import Recorder
from starmill.engines.skirmish.server import faults, session
from starmill.engines.skirmish.simulation import maps
from starmill.engines.skirmish.simulation.game import Game, Leave, PlayerSetup


@dataclasses.dataclass(frozen=True)
class Played:
    """A game as it was played.

    Attributes:
        replay: its replay file.
        digests: digests of its state by loop, every hundredth.
        inputs: its inputs by loop.
        loops: the loop on which it ended.
        result: "win" or "loss" by player.
    """

    replay: bytes
    digests: dict
    inputs: dict
    loops: int
    result: dict


@functools.cache
def played(
    *, map_name="Amber Basin", races=(1, 2), seed=5, loops=1500, version="4.9.2"
) -> Played:
    """Plays two random players, the second of whom surrenders on `loops`."""
    setups = tuple(
        PlayerSetup(race_requested=race, race=race, start=index)
        for index, race in enumerate(races)
    )
    game = Game(maps.MAPS[map_name], setups, seed)
    people = tuple(
        members.Participant(name=f"player{i}", mmr=4000 + 100 * i) for i in (1, 2)
    )
    recorder = Recorder(game, people, versions.by_number(version))
    actors = [random_player.RandomPlayer(seed * 2 + i) for i in (1, 2)]
    digests, inputs = {}, {}
    while game.loop < loops:
        given = [i for p, actor in enumerate(actors, 1) for i in actor.act(game, p)]
        admitted = recorder.admit(given)
        if admitted:
            inputs[game.loop] = admitted
        game.step(admitted)
        if game.loop % 100 == 0:
            recorder.watch()
            game.take_errors()
            digests[game.loop] = game.state_digest()
    game.step(recorder.admit([Leave(2)]))
    return Played(recorder.replay(), digests, inputs, game.loop, dict(game.result))


def replay_options() -> sc2api_pb2.InterfaceOptions:
    """Returns the interface options that DeepMind's client requests."""
    options = sc2api_pb2.InterfaceOptions(
        raw=True,
        score=True,
        show_cloaked=True,
        raw_affects_selection=True,
        show_placeholders=True,
        show_burrowed_shadows=True,
    )
    layer = options.feature_layer
    layer.width = 24
    layer.resolution.x = layer.resolution.y = 1
    layer.minimap_resolution.x = layer.minimap_resolution.y = 128
    return options


class LocalClient:
    """Sends requests to a session in this process, as bytes."""

    def __init__(self, version="4.9.2", maps_dir="", injector=None):
        self.session = session.Session(
            version=versions.by_number(version),
            maps_dir=maps_dir,
            injector=injector or faults.FaultInjector(),
        )

    def ask(self, **request) -> sc2api_pb2.Response:
        data = sc2api_pb2.Request(**request).SerializeToString()
        answer = self.session.answer(sc2api_pb2.Request.FromString(data))
        return sc2api_pb2.Response.FromString(answer)

    @property
    def status(self) -> int:
        return self.session.status

    def start_replay(self, data, player=1, **more):
        return self.ask(
            start_replay=sc2api_pb2.RequestStartReplay(
                replay_data=data,
                observed_player_id=player,
                options=replay_options(),
                **more,
            )
        ).start_replay

    def create(
        self,
        *,
        seed=3,
        difficulty=1,
        map_path="Melee/Simple64.SC2Map",
        race=1,
        options=None,
        raw_affects_selection=True,
        **computer,
    ):
        setup = [
            sc2api_pb2.PlayerSetup(type=sc2api_pb2.Participant),
            sc2api_pb2.PlayerSetup(
                type=sc2api_pb2.Computer, race=2, difficulty=difficulty, **computer
            ),
        ]
        create = sc2api_pb2.RequestCreateGame(
            local_map=sc2api_pb2.LocalMap(map_path=map_path),
            player_setup=setup,
            random_seed=seed,
        )
        answer = self.ask(create_game=create).create_game
        assert not answer.HasField("error"), answer
        options = options or replay_options()
        options.raw_affects_selection = raw_affects_selection
        join = sc2api_pb2.RequestJoinGame(race=race, options=options)
        return self.ask(join_game=join).join_game

    def step(self, count=1):
        return self.ask(step=sc2api_pb2.RequestStep(count=count))

    def observe(self, **more) -> sc2api_pb2.ResponseObservation:
        answer = self.ask(observation=sc2api_pb2.RequestObservation(**more))
        assert not answer.error, answer.error
        return answer.observation


def both(first, second):
    """Runs two calls at once, as two clients would; returns their results."""
    results = [None, None]

    def call(index, function):
        results[index] = function()

    threads = [
        threading.Thread(target=call, args=pair) for pair in enumerate((first, second))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return results


def linked(port):
    """Returns two clients that play one game: a Terran host and a Protoss guest."""
    host, guest = LocalClient(), LocalClient()
    create = sc2api_pb2.RequestCreateGame(
        local_map=sc2api_pb2.LocalMap(map_path="Melee/Simple64.SC2Map"),
        player_setup=[sc2api_pb2.PlayerSetup(type=sc2api_pb2.Participant)] * 2,
        random_seed=9,
    )
    assert not host.ask(create_game=create).create_game.HasField("error")

    def join(client, race):
        request = sc2api_pb2.RequestJoinGame(
            race=race, options=replay_options(), player_name=f"race {race}"
        )
        request.server_ports.game_port = port
        request.server_ports.base_port = port
        return client.ask(join_game=request).join_game

    answers = both(lambda: join(host, 1), lambda: join(guest, 3))
    assert [answer.player_id for answer in answers] == [1, 2]
    return host, guest


class Process:
    """A game process and a websocket to it. Leaving the `with` block ends the process."""

    def __init__(self, port, *flags, env=None, data_dir=""):
        command = [sys.executable, "-m", "starmill.engines.skirmish.server.process"]
        command += ["-listen", "127.0.0.1", "-port", str(port), *flags]
        if data_dir:
            command += ["-dataDir", f"{data_dir}/"]
        self.port = port
        self.process = subprocess.Popen(command, env=env)
        self.ids = 0
        self._open = contextlib.ExitStack()

    @classmethod
    def attached(cls, port):
        """Returns a client of a process that something else started."""
        client = cls.__new__(cls)
        client.port, client.ids, client.process = port, 0, None
        client._open = contextlib.ExitStack()
        return client

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._open.close()
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait(30)

    def connect(self):
        for _ in range(300):
            if self.process is not None and self.process.poll() is not None:
                raise ConnectionError(f"exit {self.process.returncode}")
            try:
                opening = connect(
                    f"ws://127.0.0.1:{self.port}/sc2api",
                    max_size=None,
                    ping_interval=None,
                    compression=None,
                    proxy=None,
                )
                self.socket = self._open.enter_context(opening)
                return self
            except OSError:
                time.sleep(0.1)
        raise ConnectionError("no answer")

    def ask(self, **request):
        self.ids += 1
        self.socket.send(sc2api_pb2.Request(id=self.ids, **request).SerializeToString())
        return sc2api_pb2.Response.FromString(self.socket.recv())

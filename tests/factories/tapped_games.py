"""Short real games whose messages are kept, so that tests can count in them on their own."""

import dataclasses

from starmill.benchmark.games import live_game
from starmill.benchmark.games.built_in import BuiltIn
from starmill.converters.protos import sc2api_pb2
from starmill.engines.pool import SKIRMISH, Pool, PoolConfig

MAP = "Skirmish/AmberBasin.SC2Map"


@dataclasses.dataclass
class Tapped:
    """A whole game, and what the first seat's client sent and received.

    requests: parsed, in order. answers: the message inside each answer, as bytes.
    """

    game: live_game.PlayedGame
    requests: list
    answers: list

    def of_kind(self, kind: str):
        """Yields (request, answer bytes) of one kind of request."""
        for request, answer in zip(self.requests, self.answers, strict=True):
            if request.WhichOneof("request") == kind:
                yield request, answer


def play(agents, *, minutes, seed=3, races=("terran", "zerg"), difficulty="very_easy"):
    """Plays agents against each other, or one against the game's own AI."""
    opponent = BuiltIn(difficulty=difficulty) if len(agents) == 1 else None
    setup = live_game.GameSetup(
        map_path=MAP,
        seed=seed,
        races=races,
        opponent=opponent,
        max_loops=round(minutes * 1344),
    )
    pool = Pool(PoolConfig(root=SKIRMISH, deadlines=live_game.DEADLINES))
    try:
        with pool.lease(pool.installation.newest(), len(agents)) as games:
            clients = live_game.clients_of(games)
            requests, answers = _tap(clients[0])
            game = live_game.play(clients, setup, agents, live_game.DEADLINES)
    finally:
        pool.close()
    # Nobody waits for the answer to the last request, which ends the game's process.
    return Tapped(game, requests[: len(answers)], answers)


def _tap(client):
    requests, answers = [], []
    send, receive = client.send, client.receive

    def tapped_send(request, seconds):
        kept = sc2api_pb2.Request()
        kept.CopyFrom(request)
        requests.append(kept)
        send(request, seconds)

    def tapped_receive():
        answers.append(receive())
        return answers[-1]

    client.send, client.receive = tapped_send, tapped_receive
    return requests, answers

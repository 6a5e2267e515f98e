"""Random requests against the server: nonsense, near-sense and sense, and it must not die.

    python -m tests.engines.skirmish.server.fuzz_requests --requests 50000 --seed 1

Every request must be answered with a message that parses; a session that raises is a bug. Prints
one line; exit 1 if the server failed.
"""

import argparse
import collections
import random
import sys

from google.protobuf import descriptor
from google.protobuf.message import DecodeError, Message

from starmill.converters.protos import sc2api_pb2
from tests.factories import games

FieldDescriptor = descriptor.FieldDescriptor
_INTS = (0, 1, 2, 3, 5, 16, 45, 48, 104, 319, 524, 3674, 127, 2**31 - 1)
# Requests that end the process, or make it wait for someone else, are left out.
_LEFT_OUT = {"quit", "ping"}


class Fuzzer:
    """Makes requests from a seed and gives them to one session after another."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.replay = games.played(loops=300).replay
        self.kinds = [
            f.name
            for f in sc2api_pb2.Request.DESCRIPTOR.oneofs_by_name["request"].fields
            if f.name not in _LEFT_OUT
        ]
        self.tags = [1]

    def value(self, field):
        rng = self.rng
        kinds = FieldDescriptor
        if field.cpp_type == kinds.CPPTYPE_BOOL:
            return rng.random() < 0.5
        if field.cpp_type in (kinds.CPPTYPE_FLOAT, kinds.CPPTYPE_DOUBLE):
            special = (0.0, -1.0, 1e9, float("nan"), float("inf"))
            return rng.choice(special) if rng.random() < 0.2 else rng.uniform(0, 130)
        if field.cpp_type == kinds.CPPTYPE_STRING:
            if field.type == kinds.TYPE_BYTES:
                return self.some_bytes()
            return rng.choice(("", "Melee/Simple64.SC2Map", "x" * 50, "/etc/passwd"))
        if field.cpp_type == kinds.CPPTYPE_ENUM:
            return rng.choice(field.enum_type.values).number
        if "tag" in field.name and rng.random() < 0.7:
            return rng.choice(self.tags)
        signed = field.cpp_type in (kinds.CPPTYPE_INT32, kinds.CPPTYPE_INT64)
        if field.name in ("count", "game_loop"):
            return rng.randrange(0, 40)
        return rng.choice(_INTS) - (1 if signed and rng.random() < 0.1 else 0)

    def some_bytes(self):
        rng = self.rng
        roll = rng.random()
        if roll < 0.3:
            return self.replay
        if roll < 0.6:
            data = bytearray(self.replay)
            for _ in range(rng.randrange(1, 20)):
                data[rng.randrange(len(data))] = rng.randrange(256)
            return bytes(data)
        return rng.randbytes(rng.randrange(0, 200))

    def fill(self, message: Message, depth: int = 0) -> None:
        for field in message.DESCRIPTOR.fields:
            if self.rng.random() < (0.35 if depth < 4 else 0.8):
                continue
            repeated = field.is_repeated
            for _ in range(self.rng.randrange(0, 4) if repeated else 1):
                if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
                    if depth > 6:
                        continue
                    holder = getattr(message, field.name)
                    child = holder.add() if repeated else holder
                    child.SetInParent()
                    self.fill(child, depth + 1)
                elif repeated:
                    getattr(message, field.name).append(self.value(field))
                else:
                    setattr(message, field.name, self.value(field))

    def request(self) -> bytes:
        rng = self.rng
        if rng.random() < 0.03:
            return rng.randbytes(rng.randrange(0, 60))
        weights = {"observation": 20, "step": 25, "action": 40, "query": 10, "debug": 8}
        kinds = [k for k in self.kinds for _ in range(weights.get(k, 1))]
        request = sc2api_pb2.Request(id=rng.randrange(2**32))
        kind = rng.choice(kinds)
        body = getattr(request, kind)
        body.SetInParent()
        self.fill(body)
        self.tame(request, kind)
        data = request.SerializeToString()
        if rng.random() < 0.05 and data:
            cut = bytearray(data)
            cut[rng.randrange(len(cut))] = rng.randrange(256)
            data = bytes(cut)
        return data

    def tame(self, request, kind):
        """Takes out what would end, stop or wait, and keeps planes to a sane size."""
        if kind == "join_game":
            request.join_game.ClearField("server_ports")
        if kind == "debug":
            for command in request.debug.debug:
                command.ClearField("test_process")
        if kind == "create_game":
            request.create_game.realtime = False
        if kind in ("join_game", "start_replay"):
            options = getattr(request, kind).options
            for size in (
                options.feature_layer.resolution,
                options.feature_layer.minimap_resolution,
            ):
                size.x = self.rng.choice((0, 1, 17, 64))
                size.y = self.rng.choice((0, 1, 17, 64))

    def start(self, client):
        """Brings a new session into a random state that most requests make sense in."""
        roll = self.rng.random()
        if roll < 0.5:
            client.create(
                seed=self.rng.randrange(9), difficulty=self.rng.randrange(1, 11)
            )
        elif roll < 0.9:
            client.start_replay(self.replay, self.rng.randrange(1, 3))
        if roll < 0.9:
            units = client.observe().observation.raw_data.units
            self.tags = [unit.tag for unit in units] or [1]


def run(requests: int, seed: int, per_session: int = 250) -> collections.Counter:
    """Returns how the requests were answered; raises what the server should not have."""
    fuzzer = Fuzzer(seed)
    counts: collections.Counter = collections.Counter()
    client = None
    for number in range(requests):
        # A session that was talked out of its game gets no further: begin another.
        idle = client is not None and client.status in (1, 2, 5)
        if number % per_session == 0 or (idle and fuzzer.rng.random() < 0.2):
            client = games.LocalClient()
            fuzzer.start(client)
        data = fuzzer.request()
        try:
            request = sc2api_pb2.Request.FromString(data)
        except DecodeError:
            counts["does not parse"] += 1
            continue
        if request.WhichOneof("request") in _LEFT_OUT:
            counts["left out"] += 1
            continue
        if request.WhichOneof("request") == "join_game":
            request.join_game.ClearField("server_ports")
        answer = sc2api_pb2.Response.FromString(client.session.answer(request))
        counts["error" if answer.error else "answered"] += 1
        assert client.status in range(1, 6)
    return counts


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    counts = run(args.requests, args.seed)
    print(f"fuzz: {args.requests} requests, seed {args.seed}: {dict(counts)}")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""An object store in which time is counted in round trips: `trips://` before a path.

In: addresses like `trips:///tmp/x`. Out: the files of this machine, and how many requests and how
many round trips one after the other reading them took. A request begins at the number of round
trips that had passed when it was sent, so those that are sent together end together. Like a
client's pool of connections, the store serves `connections` at a time.
"""

import asyncio
from pathlib import Path

import fsspec
from fsspec.asyn import AsyncFileSystem

# Long enough for all requests of a call to be sent before the first is answered.
_ANSWER_SECONDS = 0.3


class TripsFileSystem(AsyncFileSystem):
    protocol = "trips"
    requests = 0
    round_trips = 0
    connections = 256

    def __init__(self, **options):
        super().__init__(**options)
        self._free = None

    @classmethod
    def reset(cls):
        cls.requests = cls.round_trips = 0

    async def _request(self):
        kind = type(self)
        if self._free is None:
            self._free = asyncio.Semaphore(self.connections)
        async with self._free:
            kind.requests += 1
            end = kind.round_trips + 1
            await asyncio.sleep(_ANSWER_SECONDS)
            kind.round_trips = max(kind.round_trips, end)

    async def _cat_file(self, path, start=None, end=None, **_):
        await self._request()
        with Path(self._strip_protocol(path)).open("rb") as file:
            file.seek(start or 0)
            return file.read(-1 if end is None else end - (start or 0))

    async def _info(self, path, **_):
        await self._request()
        path = Path(self._strip_protocol(path))
        return {"name": str(path), "size": path.stat().st_size, "type": "file"}


fsspec.register_implementation("trips", TripsFileSystem, clobber=True)

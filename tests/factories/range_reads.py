"""The byte ranges that code reads from the files of a folder."""

from starmill.schema import storage


def record(monkeypatch):
    """Returns a list to which every read of a `RangeReader` adds (name, begin, end)."""
    reads = []
    read = storage.RangeReader.read

    def recorded(self, name, begin, end):
        reads.append((name, begin, end))
        return read(self, name, begin, end)

    monkeypatch.setattr(storage.RangeReader, "read", recorded)
    return reads

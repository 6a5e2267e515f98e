import pytest

from starmill.schema import errors, storage
from starmill.schema.loader import ranges
from starmill.schema.loader.ranges import Range


@pytest.mark.parametrize("place", ["local", "memory"])
def test_many_ranges_are_read_as_each(tmp_path, place):
    folder = str(tmp_path) if place == "local" else "memory://ranges"
    data = {"a": bytes(range(256)) * 4, "b": bytes(range(255, -1, -1)) * 2000}
    for name, content in data.items():
        storage.write(storage.join(folder, name), content)
    reader = storage.RangeReader(folder)
    wanted = [
        Range("b", 400_000, 400_010),
        Range("a", 10, 20),
        Range("a", 15, 40),
        Range("a", 40, 41),
        Range("b", 0, 5),
        Range("a", 10, 20),
    ]
    expected = [data[item.name][item.begin : item.end] for item in wanted]
    assert ranges.read_many(reader, wanted) == expected
    assert ranges.read_many(reader, []) == []
    with pytest.raises(errors.ShardCorrupt, match="the file ends at"):
        ranges.read_many(reader, [wanted[0], Range("a", 1000, 2000)])
    with pytest.raises(errors.ShardCorrupt, match="c: the file is missing"):
        ranges.read_many(reader, [wanted[0], Range("c", 0, 1)])
    with pytest.raises(errors.ShardCorrupt, match="expected the name of a file"):
        ranges.read_many(reader, [wanted[0], Range("../a", 0, 1)])


def test_ranges_that_are_close_become_one():
    one, two, three = (Range("a", n, n + 10) for n in (0, 20, 31))
    other = Range("b", 35, 40)
    assert ranges.spans([three, other, one, two, one], 10) == [
        Range("a", 0, 30 + 11),
        other,
    ]
    assert ranges.spans([three, one, two], 0) == [one, two, three]
    assert ranges.spans([one, Range("a", 10, 12)], 0) == [Range("a", 0, 12)]

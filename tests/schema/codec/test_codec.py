import dataclasses
import hashlib
import json
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies

from starmill.schema import codec, errors, specs
from starmill.schema.codec import bounds, packing, planes, streams, unit_rows
from starmill.schema.settings import UNPLUGGED, ConverterSettings
from tests.factories import records as factories
from tests.reference import slow_codec

GOLDEN = Path(__file__).parents[2] / "golden" / "codec_v1"

# Few units and tiny planes: hypothesis runs many episodes.
TINY = dataclasses.replace(
    UNPLUGGED,
    minimap=(4, 5),
    minimap_features=("height_map", "visibility_map"),
    max_num_upgrades=2,
    num_unit_types=3,
    raw_settings=dataclasses.replace(
        UNPLUGGED.raw_settings,
        resolution=(6, 6),
        max_unit_count=5,
        max_unit_selection_size=3,
        num_unit_features=39,
    ),
)


def assert_same(expected, actual):
    assert expected.keys() == actual.keys()
    for key in expected:
        assert expected[key].dtype == actual[key].dtype, key
        np.testing.assert_array_equal(expected[key], actual[key], err_msg=key)


def payloads(records, settings):
    """Returns what records hold before compression: the part no zstd release can change."""
    header = codec.Header(records[0], settings)
    chunks = [codec.Chunk(header, record) for record in records[1:]]
    return [header.payload, *(chunk.payload for chunk in chunks)]


def assert_round_trip(arrays, settings=factories.SMALL):
    assert_same(arrays, codec.decode(codec.encode(arrays, settings), settings))


@pytest.mark.parametrize("kind", ["game", "noise"])
@pytest.mark.parametrize("steps", [1, 2, 31, 32, 33, 64, 65, 100])
def test_every_length_comes_back(kind, steps):
    episode = factories.episode(steps, steps=steps, kind=kind)
    assert_round_trip(episode.arrays)


def test_the_paper_settings_come_back():
    arrays = factories.game_arrays(1, 40, UNPLUGGED)
    assert_round_trip(arrays, UNPLUGGED)


def test_full_and_empty_unit_lists_come_back():
    arrays = factories.game_arrays(2, 70)
    arrays["raw_units"][:40] = 0
    rng = np.random.default_rng(2)
    arrays["raw_units"][50:60] = rng.integers(
        1, 200, arrays["raw_units"][50:60].shape, np.int32
    )
    assert_round_trip(arrays)


def test_512_units_come_back():
    rng = np.random.default_rng(3)
    arrays = factories.game_arrays(3, 3, UNPLUGGED)
    arrays["raw_units"][:] = rng.integers(-(2**31), 2**31, (3, 512, 48))
    assert (arrays["raw_units"] != 0).any(-1).all()
    assert_round_trip(arrays, UNPLUGGED)


def test_duplicate_tags_and_rows_that_change_places_come_back():
    arrays = factories.game_arrays(4, 64)
    tag = specs.unit_columns(factories.SMALL).index("tag")
    rng = np.random.default_rng(4)
    units = arrays["raw_units"]
    units[:, :, tag] = rng.integers(-2, 2, units.shape[:2])
    for t in range(20, 40):
        units[t] = units[t][rng.permutation(units.shape[1])]
    assert_round_trip(arrays)


def test_zero_rows_between_used_ones_come_back():
    arrays = factories.game_arrays(5, 40)
    arrays["raw_units"][:, 3:6] = 0
    assert_round_trip(arrays)


@pytest.mark.parametrize("change", ["empty", "two", "value", "hole", "l_shape"])
def test_cameras_that_are_no_rectangle_come_back(change):
    arrays = factories.game_arrays(6, 40)
    camera = arrays["camera"]
    camera[:] = 0
    if change != "empty":
        camera[:, 10:20, 10:20] = 1
    if change == "two":
        camera[35, 40:45, 50:55] = 1
    if change == "value":
        camera[35, 12, 12] = 2
    if change == "hole":
        camera[35, 12, 12] = 0
    if change == "l_shape":
        camera[35, 20:22, 10:15] = 1
    records = codec.encode(arrays, factories.SMALL)
    assert_same(arrays, codec.decode(records, factories.SMALL))
    header = codec.Header(records[0], factories.SMALL)
    second = codec.Chunk(header, records[2])
    assert second.has_corners() == (change == "empty")


def test_planes_that_change_after_the_first_chunk_come_back():
    arrays = factories.game_arrays(7, 100)
    arrays["minimap_height_map"][50:, 3, 4] += 1
    arrays["minimap_pathable"][97:] = 255
    arrays["minimap_creep"][99] = np.random.default_rng(7).integers(
        0, 256, (32, 32), np.uint8
    )
    assert_round_trip(arrays)


@pytest.mark.parametrize("name", ["other_planes", "no_camera", "not_supervised"])
def test_other_settings_come_back(name):
    raw = factories.SMALL.raw_settings
    settings = {
        "other_planes": dataclasses.replace(
            factories.SMALL,
            minimap_features=("unit_type", "height_map"),
            minimap=(16, 24),
        ),
        "no_camera": dataclasses.replace(
            factories.SMALL,
            raw_settings=dataclasses.replace(raw, camera=False, num_unit_features=39),
        ),
        "not_supervised": dataclasses.replace(factories.SMALL, supervised=False),
    }[name]
    assert_round_trip(factories.noise_arrays(8, 37, settings), settings)


def int_arrays(spec, steps):
    info = np.iinfo(spec.dtype)
    # Small numbers often, so that runs, repeats and equal tags occur; any number at all.
    element = strategies.one_of(
        strategies.integers(0, 2), strategies.integers(info.min, info.max)
    ).map(lambda value: max(value, info.min))
    count = steps * int(np.prod(spec.shape, dtype=int))
    return strategies.lists(element, min_size=count, max_size=count).map(
        lambda values: (
            np.array(values, np.int64).astype(spec.dtype).reshape(steps, *spec.shape)
        )
    )


@strategies.composite
def episodes(draw):
    """Episodes of TINY: a few drawn steps, repeated and mixed to some length."""
    base = draw(strategies.integers(1, 3))
    seed = draw(strategies.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    arrays = {}
    drawn = draw(
        strategies.sets(strategies.sampled_from(["raw_units", "camera", "any"]))
    )
    steps = draw(strategies.sampled_from([1, 2, 32, 33, 40]))
    order = rng.integers(0, base, steps)
    for key, spec in specs.episode_specs(TINY).items():
        if key in drawn or ("any" in drawn and spec.shape == ()):
            result = draw(int_arrays(spec, base))
        else:
            info = np.iinfo(spec.dtype)
            high = draw(strategies.sampled_from([1, 255, info.max]))
            low = draw(strategies.sampled_from([0, info.min]))
            result = rng.integers(
                low, high, (base, *spec.shape), spec.dtype, endpoint=True
            )
        arrays[key] = result[order]
    return arrays


@hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
@hypothesis.given(episodes())
def test_any_arrays_of_the_spec_come_back(arrays):
    assert_round_trip(arrays, TINY)


def test_golden_episodes_of_the_reference_come_back(shared):
    paths = sorted((shared / "golden" / "converter" / "expected").glob("*.npz"))
    assert len(paths) >= 18
    for path in paths:
        with np.load(shared / "golden" / "converter" / "inputs" / path.name) as file:
            told = ConverterSettings.from_json(json.loads(bytes(file["settings_json"])))
        with np.load(path) as file:
            arrays = {key: file[key] for key in file if not key.startswith("__")}
        # Planes have the message's size, which the settings may contradict.
        planes = [array for key, array in arrays.items() if key.startswith("minimap_")]
        height, width = planes[0].shape[1:]
        settings = dataclasses.replace(told, minimap=(width, height))
        assert_round_trip(arrays, settings)


def test_windows_equal_slices_of_the_whole():
    arrays = factories.game_arrays(9, 32)
    records = codec.encode(arrays, factories.SMALL)
    header = codec.Header(records[0], factories.SMALL)
    chunk = codec.Chunk(header, records[1])
    for start in range(0, 32, 5):
        for stop in (start + 1, 32):
            # Dirty buffers: everything must be overwritten.
            out = {
                key: np.full((stop - start, *array.shape[1:]), 77, array.dtype)
                for key, array in arrays.items()
            }
            chunk.read(start, stop, out)
            assert_same({key: a[start:stop] for key, a in arrays.items()}, out)


def test_streaming_gives_the_same_records_and_holds_one_chunk():
    arrays = factories.game_arrays(10, 100)
    encoder = codec.EpisodeEncoder(factories.SMALL)
    records = []
    for t in range(100):
        step = {key: array[t] for key, array in arrays.items()}
        step["game_loop"] = step["game_loop"].reshape(1)
        encoder.add(step)
        ready = encoder.take()
        # The header comes with the first chunk, and a chunk as soon as it is full.
        assert len(ready) == {31: 2, 63: 1, 95: 1}.get(t, 0)
        records += ready
    assert encoder.steps == 100
    assert records + encoder.finish() == codec.encode(arrays, factories.SMALL)


def test_static_planes_cost_nothing_after_the_header():
    arrays = factories.game_arrays(11, 64)
    for key in arrays:
        if key != "minimap_height_map":
            arrays[key][:] = 0
    records = codec.encode(arrays, factories.SMALL)
    assert len(records[0]) > 900  # noise does not compress
    assert max(len(record) for record in records[1:]) < 200


def test_bytes_of_version_1_stay_readable_and_the_same():
    """Golden bytes, written by the release that introduced version 1 of the format."""
    arrays = factories.episode(0, steps=70).arrays
    stored = []
    for path in sorted(GOLDEN.glob("record_*.bin")):
        stored.append(path.read_bytes())
    facts = json.loads((GOLDEN / "facts.json").read_text())
    assert len(stored) == 4
    digest = hashlib.sha256()
    for key, array in sorted(codec.decode(stored, factories.SMALL).items()):
        digest.update(f"{key} {array.dtype} {array.shape}".encode() + array.tobytes())
    assert digest.hexdigest() == facts["decoded_sha256"]
    assert_same(arrays, codec.decode(stored, factories.SMALL))
    if facts["zstd"] == codec.ZSTD_VERSION:
        assert codec.encode(arrays, factories.SMALL) == stored
    # Whatever the zstd release, the payloads are the same.
    ours = codec.encode(arrays, factories.SMALL)
    assert payloads(ours, factories.SMALL) == payloads(stored, factories.SMALL)


@pytest.mark.parametrize(
    ("kind", "steps"), [("game", 70), ("noise", 2), ("noise", 33), ("camera", 40)]
)
def test_a_reader_written_from_the_page_reads_the_same(kind, steps):
    """docs/format.md is enough: an independent reader finds the same arrays."""
    if kind == "camera":
        arrays = factories.game_arrays(13, steps)
        arrays["camera"][35, 3, 5] ^= 1
        arrays["raw_units"][20:30, 1:9] = arrays["raw_units"][20:30, 8:0:-1]
    else:
        settings = TINY if kind == "noise" else factories.SMALL
        arrays = factories.episode(13, steps=steps, kind=kind, settings=settings).arrays
    settings = TINY if kind == "noise" else factories.SMALL
    assert_same(
        dict(sorted(arrays.items())),
        dict(
            sorted(slow_codec.decode(codec.encode(arrays, settings), settings).items())
        ),
    )


def test_wrong_arrays_are_named():
    step = {key: array[0] for key, array in factories.game_arrays(0, 1).items()}
    encoder = codec.EpisodeEncoder(factories.SMALL)
    wrong = {**step, "mmr": np.int64(3), "player": np.zeros(10, np.int32)}
    del wrong["camera"]
    with pytest.raises(errors.SpecError) as caught:
        encoder.add(wrong)
    for part in ("step 0", "camera", "mmr: expected int32 ()", "(10,)"):
        assert part in str(caught.value)


def test_an_episode_without_steps_is_refused():
    with pytest.raises(errors.SpecError, match="at least one step"):
        codec.EpisodeEncoder(factories.SMALL).finish()


def test_records_of_another_version_spec_or_episode_are_refused():
    one = codec.encode(factories.game_arrays(0, 40), factories.SMALL)
    two = codec.encode(factories.game_arrays(1, 40), factories.SMALL)
    old = one[0][:2] + b"\x00" + one[0][3:]
    with pytest.raises(errors.FormatError, match="codec version 0"):
        codec.decode([old, *one[1:]], factories.SMALL)
    with pytest.raises(errors.ManifestMismatch, match="encoded for the spec"):
        codec.decode(one, UNPLUGGED)
    with pytest.raises(errors.ShardCorrupt, match="another episode"):
        codec.decode([one[0], two[1]], factories.SMALL)
    with pytest.raises(errors.ShardCorrupt, match="expected chunk 0"):
        codec.decode([one[0], one[2]], factories.SMALL)
    with pytest.raises(errors.ShardCorrupt, match="expected a header"):
        codec.decode(one[1:], factories.SMALL)
    with pytest.raises(errors.ShardCorrupt, match="no records"):
        codec.decode([], factories.SMALL)
    with pytest.raises(errors.ShardCorrupt, match="not a record"):
        codec.decode([b"x" * 100], factories.SMALL)
    with pytest.raises(errors.ShardCorrupt, match="at least one chunk"):
        codec.decode(one[:1], factories.SMALL)


def test_damaged_payloads_raise_and_never_crash():
    """The kernels are given damage that the checksums would have caught before them."""
    arrays = factories.game_arrays(12, 40)
    records = codec.encode(arrays, factories.SMALL)
    rng = np.random.default_rng(12)
    inflated = payloads(records, factories.SMALL)
    header = codec.Header(records[0], factories.SMALL)
    refused = 0
    for trial in range(300):
        damaged = bytearray(inflated[1 + trial % 2])
        at = int(rng.integers(len(damaged)))
        damaged[at] ^= 1 << int(rng.integers(8))
        chunk = codec.Chunk(header, records[1 + trial % 2])
        out = {key: np.empty_like(array[:32]) for key, array in arrays.items()}
        try:
            chunk.replace_payload(bytes(damaged))
            chunk.read(0, chunk.steps, out)
        except errors.ShardCorrupt:
            refused += 1
    assert refused > 10


@pytest.mark.parametrize(
    "corners",
    [(0, 65, 3, 5), (-1, 4, 3, 5), (9, 4, 3, 5), (0, 4, 3, 65), (0, 4, -2, 5)],
    ids=["below", "above", "turned over", "right", "left"],
)
def test_a_camera_outside_its_plane_is_damage(monkeypatch, corners):
    """Corners are stored numbers; painting them unchecked would write beyond the array."""

    def forge(_, out):
        out[:] = corners
        return True

    monkeypatch.setattr(planes, "find_rectangle", forge)
    arrays = factories.game_arrays(0, 3)
    assert arrays["camera"].shape[1:] == (64, 64)
    records = codec.encode(arrays, factories.SMALL)
    with pytest.raises(errors.ShardCorrupt, match="camera is not inside the plane"):
        codec.decode(records, factories.SMALL)
    chunk = codec.Chunk(codec.Header(records[0], factories.SMALL), records[1])
    with pytest.raises(errors.ShardCorrupt, match="not inside the plane"):
        chunk.corners(0, 3)


def test_sections_that_do_not_fit_the_payload_are_damage():
    records = codec.encode(factories.game_arrays(0, 3), factories.SMALL)
    header = codec.Header(records[0], factories.SMALL)
    chunk = codec.Chunk(header, records[1])
    with pytest.raises(errors.ShardCorrupt, match="payload of 3 bytes"):
        chunk.replace_payload(b"abc")
    with pytest.raises(errors.ShardCorrupt, match="do not fill"):
        chunk.replace_payload(chunk.payload + b"\0")


def test_a_camera_of_another_size_is_damage():
    arrays = factories.game_arrays(0, 3)
    arrays["camera"][:] = 2  # no rectangle of ones: stored whole
    records = codec.encode(arrays, factories.SMALL)
    chunk = codec.Chunk(codec.Header(records[0], factories.SMALL), records[1])
    camera = chunk.payload.index(arrays["camera"].astype("<i4").tobytes())
    lengths = np.frombuffer(chunk.payload, "<u4", 4).copy()
    lengths[3] -= 4
    forged = lengths.tobytes() + chunk.payload[16:camera] + chunk.payload[camera + 4 :]
    chunk.replace_payload(forged)
    out = {"camera": np.empty_like(arrays["camera"])}
    with pytest.raises(errors.ShardCorrupt, match="camera"):
        chunk.read(0, 3, out)


def test_a_first_step_that_does_not_list_its_rows_is_damage():
    buffer = np.zeros(4096, np.uint8)
    units = np.ones((2, 4, 3), np.int32)
    rows, _ = packing.units_bound(units)
    end = packing.put_units(buffer, 0, units, rows, -1)
    out, counts = np.empty((8, 3), np.int32), np.zeros(2, np.int64)
    target = unit_rows.UnitRows(0, 4, 4)
    assert unit_rows.read_units(buffer[:end], 2, 0, 2, target, out, counts) == 0
    np.testing.assert_array_equal(out, units.reshape(8, 3))
    assert counts.tolist() == [4, 4]
    # u32, I, code of masks, masks (all present: none), codes, L, J, then the flags.
    assert buffer[9:11].tolist() == [streams.LISTED, streams.SAME]
    buffer[9] = streams.SAME
    status = unit_rows.read_units(buffer[:end], 2, 0, 2, target, out, counts)
    assert status == -bounds.ORDER
    few = unit_rows.UnitRows(0, 1, 1)
    status = unit_rows.read_units(buffer[:end], 2, 0, 2, few, out, counts)
    assert status == -bounds.INSTANCES

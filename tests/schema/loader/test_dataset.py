import dataclasses
import hashlib
import multiprocessing
import os
import signal

import numpy as np
import pyarrow.compute
import pytest

import starmill
from starmill.schema import (
    assembly,
    codec,
    episode,
    errors,
    manifest,
    shards,
    storage,
)
from starmill.schema.loader import batches, compact, samplers, windows
from tests.factories import records as factories


def made_episodes():
    return [factories.episode(seed, steps=20 + 5 * seed) for seed in range(12)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("dataset")
    factories.dataset(str(path), made_episodes())
    return str(path)


@pytest.fixture
def opened(folder):
    return starmill.open_dataset(folder)


def assert_equal_batches(one, two):
    assert one.keys() == two.keys()
    for key in one:
        assert one[key].dtype == two[key].dtype
        np.testing.assert_array_equal(one[key], two[key], err_msg=key)


def test_every_episode_comes_back(opened):
    expected = {item.meta.episode_id: item for item in made_episodes()}
    assert len(opened) == 12
    assert opened.steps == sum(item.meta.steps for item in expected.values())
    for item in (lazy.load() for lazy in opened):
        item.check(factories.SMALL)
        original = expected.pop(item.meta.episode_id)
        assert item.meta == original.meta
        assert_equal_batches(item.arrays, original.arrays)
    assert not expected


def test_a_dataset_is_a_sequence_of_episodes(opened):
    ids = [meta.episode_id for meta in opened.metas]
    assert [episode.meta.episode_id for episode in opened] == ids
    assert opened[0].meta == opened.metas[0]
    assert opened[-1].meta == opened[np.int64(11)].meta == opened.metas[11]
    assert opened[3].number == 3
    for item in (slice(2, 5), slice(None, None, 3), slice(-2, None), slice(5, 2)):
        part = opened[item]
        assert isinstance(part, starmill.Dataset)
        assert [meta.episode_id for meta in part.metas] == ids[item]
    np.testing.assert_array_equal(opened[4:][2]["mmr"], opened[6]["mmr"])
    for number in (12, -13):
        with pytest.raises(IndexError, match=f"episode {number}: there are 12"):
            opened[number]
    with pytest.raises(errors.ConfigError, match="no episodes"):
        batches_of(opened[5:2], seed=0)
    with pytest.raises(errors.ConfigError, match="no episodes"):
        opened[5:2].windows(rollout=1)


def test_what_a_dataset_shows_of_itself(opened):
    steps = sum(20 + 5 * seed for seed in range(12))
    assert repr(opened) == f"factory@1.0.0: 12 episodes, {steps} steps"
    assert repr(opened[:0]) == "factory@1.0.0: 0 episodes, 0 steps"
    page = opened._repr_html_()
    assert f"<b>factory@1.0.0: 12 episodes, {steps} steps</b>" in page
    assert "<th>maps</th><td>Acropolis 4, Thunderbird 4, Year Zero 4</td>" in page
    strange = dataclasses.replace(opened, url="<data>")
    assert "&lt;data&gt;" in strange._repr_html_()


@pytest.mark.parametrize(
    ("filters", "keeps"),
    [
        ({"split": "train"}, lambda m: m.replay_id[0] not in "01"),
        ({"outcome": [1, 0]}, lambda m: m.outcome >= 0),
        ({"race": "zerg"}, lambda m: m.race == "zerg"),
        ({"opponent_race": ("zerg", "terran")}, lambda m: m.opponent_race != "protoss"),
        ({"map_name": "Acropolis"}, lambda m: m.map_name == "Acropolis"),
        ({"mmr_above": 5000}, lambda m: m.mmr > 5000),
        (
            {"mmr_above": 4000, "mmr_rule": "both"},
            lambda m: m.mmr > 4000 and m.opponent_mmr > 4000,
        ),
        ({"min_steps": 30, "max_steps": 50}, lambda m: 30 <= m.steps <= 50),
        ({"game_version": "4.9.2"}, lambda m: True),
        (
            {"where": pyarrow.compute.field("player_id") == 2},
            lambda m: m.player_id == 2,
        ),
    ],
)
def test_filters(folder, filters, keeps):
    found = starmill.open_dataset(folder, **filters)
    wanted = {m.episode_id for m in (e.meta for e in made_episodes()) if keeps(m)}
    assert {meta.episode_id for meta in found.metas} == wanted
    # What is read is what was chosen, although the rows have moved.
    item = found[len(found) - 1].load()
    assert item.meta.episode_id in wanted
    assert item.arrays["mmr"].shape == (item.meta.steps,)


def batches_of(opened, *, workers=0, host=0, hosts=1, state=None, **options):
    options = starmill.BatchOptions(**{"batch_size": 1, "rollout": 1, **options})
    return opened.batches(options, workers=workers, host=host, hosts=hosts, state=state)


def test_requests_that_make_no_sense_are_refused(opened):
    for action, match in (
        (lambda: opened.filter(mmr_above=9999), "no episode of 12"),
        (lambda: opened.filter(mmr_rule="any"), "mmr_rule"),
        (lambda: opened[0].read(5, 4), "steps 5:4"),
        (lambda: opened[0].read(0, 99), "steps 0:99: the episode has"),
        (lambda: opened[0].read(keys=["nothing"]), "key 'nothing'"),
        (lambda: opened.find("nobody"), "no episode 'nobody'"),
        (lambda: batches_of(opened, seed=0, host=1), "host 1"),
        (lambda: batches_of(opened, seed=0, hosts=0), "hosts: must be"),
        (lambda: batches_of(opened, seed=0, workers=-1), "workers"),
        (lambda: batches_of(opened, seed=0, keys=["x"]), "key 'x'"),
    ):
        with pytest.raises(errors.ConfigError, match=match):
            action()


def test_windows_have_the_derived_arrays_of_the_whole(opened):
    number = 11
    whole = opened[number][:]
    steps = len(whole["mmr"])
    item = opened[number].load()
    derived = episode.derived(
        item.arrays["action/delay"],
        step=np.arange(steps),
        steps=steps,
        outcome=item.meta.outcome,
    )
    for key, array in derived.items():
        np.testing.assert_array_equal(whole[key], array)
    for start, stop in ((0, 1), (31, 34), (32, 33), (40, steps), (steps - 1, steps)):
        part = opened[number][start:stop]
        assert_equal_batches(part, {key: a[start:stop] for key, a in whole.items()})
    few = opened[number].read(33, 40, keys=["prev_delay", "mmr"])
    assert sorted(few) == ["mmr", "prev_delay"]
    np.testing.assert_array_equal(few["prev_delay"], derived["prev_delay"][33:40])


@pytest.mark.parametrize("cross", [False, True])
@pytest.mark.parametrize("name", samplers.NAMES)
def test_batches_are_what_their_markers_say(opened, name, cross):
    if cross and name in ("episode", "step"):
        pytest.skip("only samplers that keep order can cross episodes")
    iterator = batches_of(
        opened, batch_size=3, rollout=16, seed=1, sampler=name, cross_episodes=cross
    )
    wholes = {}
    padded = ends = 0
    for _, batch in zip(range(6), iterator, strict=False):
        for lane in range(3):
            valid = batch["valid"][lane]
            count = int(valid.sum())
            assert valid[:count].all(), "padding comes at the end"
            numbers = batch["episode"][lane][:count]
            if not cross:
                assert len(set(numbers.tolist())) <= 1
            for k in range(count):
                number, step = int(numbers[k]), int(batch["step"][lane, k])
                whole = wholes.setdefault(number, opened[number][:])
                for key, array in whole.items():
                    np.testing.assert_array_equal(batch[key][lane, k], array[step])
                outcome = opened.metas[number].outcome
                assert batch["outcome"][lane, k] == outcome
                ends += batch["step_type"][lane, k] == episode.LAST
            for key in batch:
                rest = batch[key][lane, count:]
                expected = episode.LAST if key == "step_type" else 0
                assert (rest == expected).all(), key
            padded += 16 - count
    if name in ("consecutive", "sequential"):
        assert ends
        assert padded or cross


@pytest.mark.parametrize("name", samplers.NAMES)
def test_compact_batches_expand_to_dense_ones(opened, name):
    options = {"batch_size": 3, "rollout": 16, "seed": 1, "sampler": name}
    dense = batches_of(opened, **options)
    small = batches_of(opened, **options, form="compact")
    for _ in range(4):
        one, two = next(dense), next(small)
        assert "camera" not in two
        assert two[compact.UNITS].shape[0] % compact.ROWS == 0
        expanded = compact.to_dense(two, max_units=48, resolution=64)
        assert_equal_batches(one, expanded)


def test_jax_expands_as_numpy_does(opened):
    jax = pytest.importorskip("jax")
    batch = next(batches_of(opened, batch_size=2, rollout=5, seed=1, form="compact"))
    expand = jax.jit(
        lambda b: compact.to_dense(b, max_units=48, resolution=64, xp=jax.numpy)
    )
    found = {key: np.asarray(value) for key, value in expand(batch).items()}
    assert_equal_batches(compact.to_dense(batch, max_units=48, resolution=64), found)


def test_a_camera_that_is_no_rectangle_has_no_compact_form(tmp_path):
    item = factories.episode(0)
    item.arrays["camera"][0, 0, 0] ^= 1
    item.arrays["camera"][0, 5, 5] ^= 1
    factories.dataset(str(tmp_path), [item])
    opened = starmill.open_dataset(str(tmp_path))
    with pytest.raises(errors.ConfigError, match="not one rectangle"):
        next(batches_of(opened, batch_size=1, rollout=40, seed=0, form="compact"))


def test_single_keys_and_kept_batches(opened):
    options = {"batch_size": 2, "rollout": 4, "seed": 2}
    full = batches_of(opened, **options)
    some = batches_of(opened, **options, keys=["player", "action/function"])
    kept_full = [next(full) for _ in range(5)]
    kept_some = [next(some) for _ in range(5)]
    for one, two in zip(kept_full, kept_some, strict=True):
        assert set(two) == {"player", "action/function", *batches.EXTRAS}
        assert_equal_batches({key: one[key] for key in two}, two)


def test_buffers_are_used_again_once_nobody_looks(opened):
    iterator = batches_of(opened, batch_size=2, rollout=4, seed=2)
    places = set()
    for _ in range(6):
        batch = next(iterator)
        places.add(batch["player"].ctypes.data)
    assert len(places) == 2
    view = batch["player"][0, 1:]
    before = view.copy()
    del batch
    for _ in range(4):
        next(iterator)
    np.testing.assert_array_equal(view, before)


def test_unit_tags_are_shuffled_by_the_seed_and_nothing_else_is(opened):
    options = {"batch_size": 4, "rollout": 8, "sampler": "step"}
    plain = next(batches_of(opened, **options, seed=3))
    mixed = next(batches_of(opened, **options, seed=3, shuffle_unit_tags=True))
    again = next(
        batches_of(opened, **options, seed=3, shuffle_unit_tags=True, workers=1)
    )
    assert_equal_batches(mixed, again)
    tags, before = mixed.pop("action/unit_tags"), plain.pop("action/unit_tags")
    assert_equal_batches(plain, mixed)
    assert (tags != before).any()
    np.testing.assert_array_equal(np.sort(tags, axis=-1), np.sort(before, axis=-1))
    # Padding stays at the end.
    np.testing.assert_array_equal(tags == 48, before == 48)


def test_hosts_share_the_batches(opened):
    for name in samplers.NAMES:
        options = {"rollout": 4, "seed": 5, "sampler": name}
        whole = batches_of(opened, **options, batch_size=6)
        parts = [
            batches_of(opened, **options, batch_size=2, host=host, hosts=3)
            for host in range(3)
        ]
        for _ in range(3):
            together = [next(part) for part in parts]
            joined = {
                key: np.concatenate([part[key] for part in together])
                for key in together[0]
            }
            assert_equal_batches(next(whole), joined)


def digest_of(batch):
    found = hashlib.sha256()
    for key in sorted(batch):
        found.update(key.encode())
        found.update(np.ascontiguousarray(batch[key]).tobytes())
    return found.hexdigest()


def digests(iterator, count):
    return [digest_of(next(iterator)) for _ in range(count)]


LIGHT = ["player", "action/function", "action/unit_tags"]


@pytest.mark.parametrize("name", ["episode", "step", "consecutive"])
def test_resuming_is_exact_over_1000_batches(opened, name):
    options = {
        "batch_size": 2,
        "rollout": 4,
        "seed": 7,
        "sampler": name,
        "keys": LIGHT,
        "shuffle_unit_tags": True,
    }
    whole = digests(batches_of(opened, **options), 1000)
    assert len(set(whole)) > 100
    first = batches_of(opened, **options)
    half = digests(first, 500)
    state = first.get_state()
    assert all(isinstance(value, int) for value in state.values())
    resumed = batches_of(opened, **options, state=state)
    assert half + digests(resumed, 500) == whole


def test_resuming_a_pass_in_order_is_exact(opened):
    options = {"batch_size": 1, "rollout": 1, "sampler": "sequential", "keys": LIGHT}
    whole = [digest_of(batch) for batch in batches_of(opened, **options)]
    assert len(whole) == opened.steps
    first = batches_of(opened, **options)
    half = digests(first, 250)
    resumed = batches_of(opened, **options, state=first.get_state())
    assert half + [digest_of(batch) for batch in resumed] == whole


def test_workers_give_the_same_batches_and_resume_in_any_number(opened):
    options = {
        "batch_size": 2,
        "rollout": 4,
        "seed": 7,
        "sampler": "consecutive",
        "keys": LIGHT,
    }
    whole = digests(batches_of(opened, **options), 60)
    with batches_of(opened, **options, workers=2) as two:
        first = digests(two, 31)
        state = two.get_state()
    with batches_of(opened, **options, workers=1, state=state) as one:
        kept = [next(one) for _ in range(29)]
    assert first + [digest_of(batch) for batch in kept] == whole


@pytest.fixture(scope="module")
def long(tmp_path_factory):
    """Episodes of 1,200 steps in all."""
    path = tmp_path_factory.mktemp("long")
    factories.dataset(str(path), [factories.episode(n, steps=100) for n in range(12)])
    return starmill.open_dataset(str(path))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", samplers.NAMES)
def test_resuming_with_workers_is_exact_over_1000_batches(long, name, workers):
    options = {
        "batch_size": 1,
        "rollout": 1,
        "seed": None if name == "sequential" else 7,
        "sampler": name,
        "keys": LIGHT,
    }
    whole = digests(batches_of(long, **options), 1000)
    with batches_of(long, **options, workers=workers) as first:
        half = digests(first, 500)
        state = first.get_state()
    # The other number of workers goes on.
    with batches_of(long, **options, workers=4 - workers, state=state) as second:
        assert half + digests(second, 500) == whole


def test_states_of_other_iterations_are_refused(opened):
    options = {"batch_size": 2, "rollout": 4, "seed": 7}
    state = batches_of(opened, **options).get_state()
    for other, match in (
        (batches_of(opened, **{**options, "seed": 8}), "other options"),
        (batches_of(opened.filter(outcome=1), **options), "other dataset"),
    ):
        with pytest.raises(errors.ConfigError, match=match):
            other.set_state(state)
    with pytest.raises(errors.ConfigError, match="expected position"):
        batches_of(opened, **options).set_state({"position": 3})


def test_a_worker_that_dies_is_reported(opened):
    iterator = batches_of(
        opened, batch_size=1, rollout=2, seed=0, keys=LIGHT, workers=1
    )
    next(iterator)
    (child,) = [
        process
        for process in multiprocessing.active_children()
        if process.name.startswith("starmill-loader")
    ]
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(
        errors.StarmillError, match="loader worker .* exited .signal 9. before it"
    ):
        for _ in range(20):
            next(iterator)
    iterator.close()


def test_a_worker_error_reaches_the_reader(tmp_path):
    content = factories.dataset(str(tmp_path))
    for entry in content.shards:
        (tmp_path / entry.name).write_bytes(b"")
    opened = starmill.open_dataset(str(tmp_path))
    with (
        batches_of(opened, batch_size=1, rollout=2, seed=0, workers=1) as iterator,
        pytest.raises(errors.ShardCorrupt, match="the file ends at"),
    ):
        next(iterator)


def test_window_sources_suit_grain(opened):
    grain = pytest.importorskip("grain.python")
    source = opened.windows(rollout=8, keys=LIGHT)
    sampler = grain.SequentialSampler(
        num_records=len(source), shard_options=grain.NoSharding()
    )
    loader = grain.DataLoader(data_source=source, sampler=sampler, worker_count=0)
    ordered = batches_of(
        opened, batch_size=1, rollout=8, sampler="sequential", keys=LIGHT
    )
    count = 0
    for item, batch in zip(loader, ordered, strict=True):
        assert_equal_batches(item, {key: array[0] for key, array in batch.items()})
        count += 1
    assert count == len(source)
    with pytest.raises(IndexError):
        source[len(source)]


# --- what is not what it should be -------------------------------------------------------


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Two short episodes: small enough to flip every byte."""
    path = tmp_path_factory.mktemp("tiny")
    items = [factories.episode(seed, steps=34) for seed in (0, 1)]
    for item in items:
        item.arrays["raw_units"][:, 4:] = 0
        item.arrays["minimap_height_map"][:] = 1
    factories.dataset(str(path), items, shards_per_split=1)
    return path


def test_every_flipped_byte_of_a_shard_is_noticed_and_named(tiny, monkeypatch):
    opened = starmill.open_dataset(str(tiny))
    index = windows.EpisodeIndex.from_table(opened.table)
    (name,) = index.shard_names
    data = (tiny / name).read_bytes()
    flipped = -1
    plain = storage.RangeReader._read_local

    def read(self, shard, url, begin, end):
        found = bytearray(plain(self, shard, url, begin, end))
        if begin <= flipped < end:
            found[flipped - begin] ^= 1 << flipped % 8
        return bytes(found)

    monkeypatch.setattr(storage.RangeReader, "_read_local", read)
    offsets = index.offsets
    for flipped in range(len(data)):
        number = int(np.searchsorted(index.offsets, flipped, side="right")) - 1
        owner = int(np.searchsorted(index.begins, number, side="right")) - 1
        record = number - int(index.begins[owner])
        reader = windows.WindowReader(str(tiny), factories.SMALL, index)
        with pytest.raises(errors.ShardCorrupt) as caught:
            reader.record(owner, record)
        message = str(caught.value)
        assert name in message
        assert index.ids[owner].decode() in message
        assert ("header" if record == 0 else f"chunk {record - 1}") in message
    assert flipped == len(data) - 1
    assert offsets[-1] == len(data)


def test_every_flipped_byte_beside_the_shards_is_noticed(tiny, monkeypatch):
    plain = storage.read
    flips = {"name": "", "at": 0}

    def read(url):
        found = plain(url)
        if url.endswith("/" + flips["name"]):
            changed = bytearray(found)
            changed[flips["at"]] ^= 1 << flips["at"] % 8
            return bytes(changed)
        return found

    content = manifest.read(str(tiny))
    sizes = {entry.name: entry.size_bytes for entry in content.files}
    assert set(sizes) == {
        "episodes.parquet",
        "quarantine.parquet",
        "unselected.parquet",
        "README.md",
        "croissant.json",
    }
    monkeypatch.setattr(storage, "read", read)
    dataset = pytest.importorskip("starmill.schema.loader.dataset")
    for name, size in sizes.items():
        flips["name"] = name
        for flips["at"] in range(0, size, 1):
            with pytest.raises(errors.ManifestMismatch, match=name):
                dataset.checked_file(str(tiny), content, name)
    flips["name"] = manifest.NAME
    for flips["at"] in range(len(content.to_bytes())):
        with pytest.raises(errors.FormatError):
            starmill.open_dataset(str(tiny))


def test_truncated_and_missing_shards_are_named(tmp_path):
    content = factories.dataset(str(tmp_path))
    for entry in content.shards:
        path = tmp_path / entry.name
        data = path.read_bytes()
        path.write_bytes(data[:-1])
        opened = starmill.open_dataset(str(tmp_path))
        with pytest.raises(errors.ShardCorrupt, match=entry.name):
            [item.load() for item in opened]
        path.unlink()
        opened = starmill.open_dataset(str(tmp_path))
        with pytest.raises(errors.ShardCorrupt, match="missing"):
            [item.load() for item in opened]
        path.write_bytes(data)
    assert len(list(starmill.open_dataset(str(tmp_path)))) == 12


def test_parts_of_another_dataset_are_refused(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    content = factories.dataset(str(one))
    others = [factories.episode(seed, steps=25) for seed in range(20, 32)]
    factories.dataset(str(two), others, version="2.0.0")
    (two / "manifest.json").write_bytes((one / "manifest.json").read_bytes())
    with pytest.raises(errors.ManifestMismatch, match=r"episodes\.parquet"):
        starmill.open_dataset(str(two))
    with pytest.raises(errors.ManifestMismatch, match="expected sha256:000"):
        starmill.open_dataset(f"{one}#sha256:{'0' * 64}")
    assert len(starmill.open_dataset(f"{one}#{content.digest()}")) == 12
    # Another dataset's shards under this one's table.
    names = sorted(path.name for path in one.glob("*.tfrecord"))
    for name in names:
        (one / name).write_bytes((one / names[0]).read_bytes() * 3)
    with pytest.raises(errors.ShardCorrupt):
        [item.load() for item in starmill.open_dataset(str(one))]


@pytest.mark.parametrize(
    ("order", "match"),
    [
        ((0, 2, 1, 3), "expected chunk 0 of 32 steps, found chunk 1"),
        ((0, 1, 1, 3), "expected chunk 1 of 32 steps, found chunk 0"),
        ((0, 1, 2, 2), "expected chunk 2 of 10 steps, found chunk 1 of 32"),
        ((0, 1, 2), "the table lists only 3 records"),
        ((1, 1, 2, 3), "expected a header"),
    ],
)
def test_records_that_changed_places_are_noticed(tmp_path, order, match):
    """Whole, undamaged records where the table says, but not those that belong there."""
    item = factories.episode(0, steps=74)
    records = codec.encode(item.arrays, factories.SMALL)
    assert len(records) == 4
    wrong = shards.EpisodeRecords(
        meta=item.meta, records=[records[number] for number in order]
    )
    name = shards.shard_name("train", 0, 1)
    entry, placed = shards.write_shard(str(tmp_path), name, [wrong])
    build = assembly.Build(
        name="wrong",
        version="1.0.0",
        engine="factory",
        settings=factories.SMALL,
        selection={},
        replay_ids=frozenset([item.meta.replay_id]),
    )
    assembly.finish(str(tmp_path), build, [entry], placed)
    with pytest.raises(errors.ShardCorrupt, match=match):
        starmill.open_dataset(str(tmp_path))[0][:]


def test_names_are_looked_up_in_the_registry(folder, tmp_path):
    content = manifest.read(folder)
    path = tmp_path / "registry.json"
    registry = pytest.importorskip("starmill.schema.registry")
    registry.add(path, "factory@1.0.0", folder, content.digest())
    opened = starmill.open_dataset("factory@1.0.0", registry_file=str(path))
    assert opened.reference == content.reference()
    registry.add(path, "other@1.0.0", folder, content.digest())
    with pytest.raises(errors.ManifestMismatch, match="expected other@1.0.0"):
        starmill.open_dataset("other@1.0.0", registry_file=str(path))


def test_memory_addresses_work_alike(opened):
    content = factories.dataset("memory://dataset-test", made_episodes())
    remote = starmill.open_dataset("memory://dataset-test")
    assert remote.reference == opened.reference == content.reference()
    options = {"batch_size": 2, "rollout": 16, "seed": 3}
    assert_equal_batches(
        next(batches_of(remote, **options)), next(batches_of(opened, **options))
    )

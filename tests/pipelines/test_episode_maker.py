"""One replay to episodes: against the embedded game, well-behaved and faulty."""

import contextlib
import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from starmill.converters import episode, timing
from starmill.converters.observation import Converter
from starmill.engines import client, playback
from starmill.engines.pool import SKIRMISH, Pool, PoolConfig
from starmill.engines.replays import replay_file
from starmill.engines.skirmish import install, versions
from starmill.engines.skirmish.server import faults
from starmill.pipelines import episode_maker
from starmill.schema import codec, errors, replay_row
from starmill.schema.settings import UNPLUGGED
from tests.factories import short_games

pytestmark = pytest.mark.timeout(900)
DEADLINES = client.Deadlines(start=300, load=300, play=120)
IMPATIENT = client.Deadlines(start=300, load=300, play=3)


def row_of(data: bytes) -> replay_row.ReplayRow:
    return replay_file.replay_row(data, "folder/game.SC2Replay")


@pytest.fixture(scope="module")
def pool():
    games = Pool(PoolConfig(root=SKIRMISH, deadlines=DEADLINES))
    yield games
    games.close()


@pytest.fixture
def faulty(tmp_path):
    """Returns a pool whose games obey the given rules."""
    pools = []

    def make(*rules: dict, deadlines=DEADLINES, **options) -> Pool:
        install.install(tmp_path, versions.VERSIONS)
        orders = {"seed": 1, "rules": list(rules)}
        (tmp_path / faults.FILE_NAME).write_text(json.dumps(orders))
        config = PoolConfig(root=str(tmp_path), deadlines=deadlines, **options)
        pools.append(Pool(config))
        return pools[-1]

    yield make
    for games in pools:
        games.close()


def content(result: episode_maker.Result) -> list[tuple]:
    return [(encoded.meta, list(encoded.records)) for encoded in result.episodes]


@pytest.fixture(scope="module")
def plain(pool):
    data = short_games.short_game(1)
    return episode_maker.EpisodeMaker(pool, episode_maker.MakerConfig()).run(
        data, row_of(data)
    )


def test_both_sides_become_episodes_with_what_the_file_says(plain):
    data = short_games.short_game(1)
    row = row_of(data)
    assert plain.quarantine == ()
    assert [encoded.meta.player_id for encoded in plain.episodes] == [1, 2]
    frames = timing.action_frames(replay_file.open_replay(data).game_events())
    for encoded, own, other in zip(
        plain.episodes, row.players, row.players[::-1], strict=True
    ):
        meta = encoded.meta
        assert meta.replay_id == row.replay_id
        assert (meta.mmr, meta.opponent_mmr) == (own.mmr, other.mmr)
        assert (meta.race, meta.outcome) == (own.race_name, own.outcome)
        assert meta.game_loops == frames[meta.player_id][-1]
        arrays = codec.decode(list(encoded.records), UNPLUGGED)
        assert len(arrays["game_loop"]) == meta.steps
        assert arrays["game_loop"][-1] == meta.game_loops
        gaps = np.diff(arrays["game_loop"])
        assert np.array_equal(arrays["action/delay"][:-1], gaps)
    assert plain.loops_played == sum(
        encoded.meta.game_loops for encoded in plain.episodes
    )


def test_a_game_is_played_once_per_side_and_processes_are_reused(pool):
    data = short_games.short_game(1)
    maker = episode_maker.EpisodeMaker(pool, episode_maker.MakerConfig())
    maker.run(data, row_of(data))
    started = pool.started
    for _ in range(3):
        again = maker.run(data, row_of(data))
    assert pool.started == started
    assert again.attempts == 2


def test_the_same_bytes_again_in_one_process_and_one_side_alone(pool, plain):
    data = short_games.short_game(1)
    one = episode_maker.EpisodeMaker(pool, episode_maker.MakerConfig(one_process=True))
    assert content(one.run(data, row_of(data))) == content(plain)
    second = episode_maker.EpisodeMaker(pool, episode_maker.MakerConfig()).run(
        data, row_of(data), (2,)
    )
    assert content(second) == content(plain)[1:]


def test_opponent_features_come_from_the_same_two_plays(pool, plain):
    settings = dataclasses.replace(UNPLUGGED, add_opponent_features=True)
    data = short_games.short_game(1)
    row = row_of(data)
    result = episode_maker.EpisodeMaker(
        pool, episode_maker.MakerConfig(settings=settings)
    ).run(data, row)
    assert result.quarantine == ()
    frames = timing.action_frames(replay_file.open_replay(data).game_events())
    longest = max(loops[-1] for loops in frames.values())
    assert result.loops_played <= 2 * longest
    for ours, without in zip(result.episodes, plain.episodes, strict=True):
        arrays = codec.decode(list(ours.records), settings)
        alone = codec.decode(list(without.records), UNPLUGGED)
        for key, expected in alone.items():
            assert np.array_equal(arrays[key], expected), key
        theirs = slow_opponents(pool, data, row, ours.meta.player_id, frames, settings)
        assert theirs, "expected opponent features"
        for key, expected in theirs.items():
            assert np.array_equal(arrays[key], expected), key


def slow_opponents(pool, data, row, side, frames, settings):
    """The reference's way: both processes step by the player's own plan alone."""
    executable = pool.installation.executable(
        row.game_version, row.base_build, row.data_version
    )
    with pool.lease(executable, 2) as games:
        players = [playback.Player(game) for game in games]
        info = players[0].load(data, side, settings)
        players[1].load(data, 3 - side, settings)
        streams = [player.stream(frames[side]) for player in players]
        pairs = (
            (loop, episode.Observed(mine.player, other.player))
            for (loop, mine), (_, other) in zip(*streams, strict=True)
        )
        converter = Converter(settings, info.game_info, info.replay_info)
        steps = episode.convert_stream(converter, pairs, frames[side])
        arrays = episode.stack(steps)
    return {key: value for key, value in arrays.items() if key.startswith("opponent_")}


@pytest.mark.parametrize(
    "kind", ["crash", "close", "garbage", "wrong_id", "stub", "short"]
)
def test_a_fault_on_the_first_attempt_leaves_no_trace(faulty, plain, kind):
    loop = {"stub": 0, "short": 40}.get(kind, 100)
    games = faulty({"kind": kind, "loop": loop, "attempts": [1]})
    data = short_games.short_game(1)
    result = episode_maker.EpisodeMaker(games, episode_maker.MakerConfig()).run(
        data, row_of(data)
    )
    assert result.quarantine == ()
    assert content(result) == content(plain)
    assert result.attempts == 4


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("crash", "engine_crashed"),
        ("close", "engine_crashed"),
        ("wrong_id", "engine_crashed"),
        ("short", "desync"),
        ("stub", "desync"),
    ],
)
def test_what_fails_every_time_goes_to_quarantine_alone(faulty, plain, kind, reason):
    loop = {"stub": 0, "short": 40}.get(kind, 100)
    games = faulty({"kind": kind, "loop": loop, "player": 2})
    data = short_games.short_game(1)
    result = episode_maker.EpisodeMaker(
        games, episode_maker.MakerConfig(attempts=2)
    ).run(data, row_of(data))
    assert content(result) == content(plain)[:1]
    (failed,) = result.quarantine
    assert (failed.player_id, failed.reason) == (2, reason)
    assert failed.source == "game"
    assert result.attempts == 3


def test_a_hang_is_a_timeout(faulty):
    games = faulty({"kind": "hang", "loop": 100}, deadlines=IMPATIENT)
    data = short_games.short_game(1)
    result = episode_maker.EpisodeMaker(
        games, episode_maker.MakerConfig(attempts=1)
    ).run(data, row_of(data))
    assert [row.reason for row in result.quarantine] == ["engine_timeout"] * 2


def test_a_game_that_leaks_is_given_up(faulty):
    games = faulty(
        {"kind": "leak", "loop": 0, "megabytes": 64}, max_rss_bytes=800 << 20
    )
    data = short_games.short_game(3, loops=1500, busy=0.3)
    result = episode_maker.EpisodeMaker(
        games, episode_maker.MakerConfig(attempts=1)
    ).run(data, row_of(data))
    assert {row.reason for row in result.quarantine} == {"engine_crashed"}
    assert all("memory" in row.detail for row in result.quarantine)


def test_a_version_that_is_not_installed_names_those_that_are(tmp_path):
    install.install(tmp_path, versions.VERSIONS[:1])
    games = Pool(PoolConfig(root=str(tmp_path)))
    data = short_games.short_game(1)
    result = episode_maker.EpisodeMaker(games, episode_maker.MakerConfig()).run(
        data, row_of(data)
    )
    games.close()
    assert [row.reason for row in result.quarantine] == ["engine_missing"] * 2
    assert "needs game version 4.9.2 (build 74741)" in result.quarantine[0].detail
    assert "found 4.8.2 (build 71663)" in result.quarantine[0].detail
    assert games.started == 0


def test_a_file_that_changed_since_it_was_indexed_is_not_played(pool):
    data = short_games.short_game(1)
    row = row_of(data)
    result = episode_maker.EpisodeMaker(pool, episode_maker.MakerConfig()).run(
        data + b"x", row
    )
    assert {row.reason for row in result.quarantine} == {"unreadable"}


def test_a_replay_of_the_real_game_is_refused_with_a_reason(pool, shared):
    path = next(
        path
        for path in sorted((shared / "replays").glob("*.SC2Replay"))
        if row_of(path.read_bytes()).base_build in pool.installation.builds
    )
    data = path.read_bytes()
    result = episode_maker.EpisodeMaker(
        pool, episode_maker.MakerConfig(attempts=1)
    ).run(data, row_of(data))
    assert result.episodes == ()
    assert {row.reason for row in result.quarantine} == {"engine_refused"}


class KilledOnce:
    """A pool whose first games are killed: when lent, or once they have played."""

    def __init__(self, pool: Pool, kills: int, *, in_play: bool = False) -> None:
        self._pool, self.kills, self._in_play = pool, kills, in_play
        self.installation, self.config = pool.installation, pool.config

    @contextlib.contextmanager
    def lease(self, executable, count=1):
        kill, self.kills = self.kills > 0, max(0, self.kills - 1)
        if kill and not self._in_play:
            raise errors.EngineKilled("a signal from outside ended the game")
        with self._pool.lease(executable, count) as games:
            yield games
            if kill:
                raise errors.EngineKilled("a signal from outside ended the game")


@pytest.mark.parametrize("in_play", [False, True])
def test_kills_from_outside_do_not_count_as_attempts(pool, plain, in_play, monkeypatch):
    monkeypatch.setattr(episode_maker, "_LONGEST_PAUSE_SECONDS", 0.01)
    data = short_games.short_game(1)
    games = KilledOnce(pool, kills=6, in_play=in_play)
    result = episode_maker.EpisodeMaker(
        games, episode_maker.MakerConfig(attempts=1)
    ).run(data, row_of(data))
    assert content(result) == content(plain)
    # Before a loop is played kills say nothing of the replay, so the other bound does not hold.
    games = KilledOnce(pool, kills=100, in_play=in_play)
    bound = {"kills" if in_play else "early_kills": 3}
    other = {"early_kills" if in_play else "kills": 0}
    config = episode_maker.MakerConfig(attempts=1, **bound, **other)
    result = episode_maker.EpisodeMaker(games, config).run(data, row_of(data))
    assert [row.reason for row in result.quarantine] == ["engine_crashed"] * 2
    assert games.kills == 100 - 2 * 4


def test_an_unknown_outcome_is_a_reason(pool):
    data = short_games.short_game(1)
    row = row_of(data)
    players = (dataclasses.replace(row.players[0], result="Undecided"), row.players[1])
    result = episode_maker.EpisodeMaker(pool, episode_maker.MakerConfig()).run(
        data, dataclasses.replace(row, players=players)
    )
    assert [encoded.meta.player_id for encoded in result.episodes] == [2]
    assert [row.reason for row in result.quarantine] == ["outcome"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errors.EngineMissing("x"), "engine_missing"),
        (errors.EngineTimeout("x"), "engine_timeout"),
        (errors.EngineDesync("x"), "desync"),
        (errors.EngineKilled("x"), "engine_crashed"),
        (errors.EngineError("x"), "engine_crashed"),
        (errors.ConverterError("x"), "converter"),
        (errors.SpecError("x"), "spec"),
        (errors.ReplayError("bad_events", "x"), "bad_events"),
    ],
)
def test_every_failure_has_a_reason(error, reason):
    assert episode_maker.reason_of(error) == reason


def test_errors_that_are_not_a_replays_pass_through():
    with pytest.raises(errors.ConfigError):
        episode_maker.reason_of(errors.ConfigError("disk full"))


@pytest.mark.parametrize(
    "options",
    [
        {"attempts": 0},
        {"settings": dataclasses.replace(UNPLUGGED, supervised=False)},
        {
            "one_process": True,
            "settings": dataclasses.replace(UNPLUGGED, add_opponent_features=True),
        },
    ],
)
def test_options_that_make_no_sense_together(options):
    with pytest.raises(errors.ConfigError):
        episode_maker.MakerConfig(**options)


def test_nothing_of_a_game_is_left_in_the_temp_folder(faulty):
    games = faulty({"kind": "crash", "loop": 50, "player": 1})
    data = short_games.short_game(1)
    episode_maker.EpisodeMaker(games, episode_maker.MakerConfig(attempts=2)).run(
        data, row_of(data)
    )
    folder: Path = games._spawner.folder
    # Only those that still wait: none if the second attempt took the other side's game.
    assert len(list(folder.iterdir())) == len(games._idle) <= 1
    games.close()
    assert not folder.exists()


def test_games_are_counted_once_and_turns_are_bounded(pool, plain):
    pool.newly_started()
    before = pool.started
    data = short_games.short_game(1, version="4.8.2")
    episode_maker.EpisodeMaker(pool, episode_maker.MakerConfig()).run(
        data, row_of(data)
    )
    assert pool.newly_started() == pool.started - before == 2
    assert pool.newly_started() == 0
    held = [pool.turns.acquire(blocking=False) for _ in range(pool.config.max_idle)]
    assert held.count(True) == pool.config.max_idle // 2
    for _ in range(held.count(True)):
        pool.turns.release()

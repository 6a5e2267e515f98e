"""Extending a dataset in place.

The first test plays short games of the embedded engine. In the others, episodes of the factory take
the place of played ones: they are about files, and follow from the replay's id as well.
"""

import shutil

import pytest

import starmill
from starmill import cli
from starmill.pipelines import claims, episode_maker, work_folder
from starmill.schema import assembly, card, codec, errors, manifest, shards, table
from tests.factories import builds, records, short_games
from tests.factories.datasets import assert_equal_batches

pytestmark = [pytest.mark.usefixtures("quiet"), pytest.mark.timeout(900)]


@pytest.fixture
def quiet(monkeypatch):
    """Leaves the logging of the test process alone."""
    monkeypatch.setattr(cli, "_configure_logging", lambda: None)


@pytest.fixture(scope="module")
def files_of_replays(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replays")
    for seed in range(5):
        replay = short_games.short_game(seed, loops=60)
        (folder / f"game{seed}.SC2Replay").write_bytes(replay)
    (folder / "text.SC2Replay").write_bytes(b"this is no replay")
    return sorted(str(path) for path in folder.iterdir())


@pytest.fixture(scope="module")
def games(files_of_replays):
    return files_of_replays[:5]


def make(self, data, row, sides):
    """Returns episodes that follow from the replay's id, without a game."""
    seed = int(row.replay_id[:4], 16)
    episodes = []
    for side in sides:
        item = records.episode(
            seed + side,
            steps=20 + seed % 30,
            settings=self._config.settings,
            replay_id=row.replay_id,
            player_id=side,
        )
        encoded = codec.encode(item.arrays, self._config.settings)
        episodes.append(shards.EpisodeRecords(meta=item.meta, records=encoded))
    return episode_maker.Result(episodes=tuple(episodes), quarantine=())


def generate(replays, output, *more, is_played=False) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cli, "_configure_logging", lambda: None)
        if not is_played:
            patch.setattr(episode_maker.EpisodeMaker, "run", make)
        return cli.main(builds.command(replays, output, "--workers", "1", *more)[3:])


def extend(replays, output, version, *more, is_played=False) -> int:
    words = ("--version", version, "--extend", str(output), *more)
    return generate(replays, output, *words, is_played=is_played)


@pytest.fixture(scope="module")
def base(games, tmp_path_factory):
    output = tmp_path_factory.mktemp("base") / "data"
    assert generate(games[:2], output, "--name", "ours") == 0
    return output


@pytest.fixture(scope="module")
def grown(base, games, tmp_path_factory):
    output = tmp_path_factory.mktemp("grown") / "data"
    shutil.copytree(base, output)
    assert extend(games[2:4], output, "1.1.0") == 0
    assert extend(games[4:], output, "1.2.0") == 0
    return output


@pytest.fixture
def data(base, tmp_path):
    shutil.copytree(base, tmp_path / "data")
    return tmp_path / "data"


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def error_of(capsys) -> str:
    lines = capsys.readouterr().err.strip().splitlines()
    return next(line for line in lines if "Error" in line or "Mismatch" in line)


def test_an_increment_plays_and_writes_what_is_new(
    tmp_path, files_of_replays, games, monkeypatch, capsys
):
    data = tmp_path / "data"
    more = ("--name", "ours", "--one-process")
    assert generate(games[:2], data, *more, is_played=True) == 0
    before = files(data)
    played = []
    real = work_folder.write_result
    monkeypatch.setattr(
        work_folder, "write_result", lambda *args: (played.append(args[1]), real(*args))
    )
    line = (files_of_replays, data, "1.1.0", "--one-process")
    assert extend(*line, is_played=True) == 0
    printed = capsys.readouterr().out
    content = manifest.read(str(data))
    assert printed.splitlines()[-1] == content.reference()
    assert content.reference().startswith("ours@1.1.0#")
    assert len(played) == len(games) - 2
    assert "3 x 2 = 6 episodes" in printed
    assert content.counts("episodes") == [4, 6]
    after = files(data)
    assert {name for name in before if after[name] != before[name]} == {
        manifest.NAME,
        card.README,
        card.CROISSANT,
    }
    assert cli.main(["verify", str(data)]) == 0
    monkeypatch.setattr(work_folder, "write_result", None)
    assert extend(*line) == 0  # it is finished
    assert capsys.readouterr().out.splitlines()[-1] == content.reference()
    assert files(data) == after


def test_the_same_increments_give_one_digest_whatever_else_is_passed(
    grown, base, files_of_replays, games, tmp_path
):
    """Replays that the dataset has, broken ones, and another order change nothing."""
    other = tmp_path / "other"
    assert generate(games[1::-1], other, "--name", "ours") == 0
    assert builds.digest(other) == builds.digest(base)
    assert extend([*games[3::-1], files_of_replays[-1]], other, "1.1.0") == 0
    more = ("--work", str(tmp_path / "work"))
    assert extend(files_of_replays[::-1], other, "1.2.0", *more) == 0
    assert builds.digest(other) == builds.digest(grown)
    assert files(other) == files(grown)


def test_a_grown_dataset_is_read_like_a_whole_one_and_compacted_to_it(
    grown, games, tmp_path, monkeypatch
):
    assert generate(games, tmp_path / "whole", "--version", "1.3.0") == 0
    one, two = (starmill.open_dataset(path) for path in (grown, tmp_path / "whole"))
    whole = {episode.meta.episode_id: episode for episode in two}
    assert {episode.meta.episode_id for episode in one} == whole.keys()
    for episode in one:
        assert_equal_batches(episode.read(), whole[episode.meta.episode_id].read())
    assert one.manifest.statistics == two.manifest.statistics
    monkeypatch.setattr(work_folder, "write_result", None)  # nothing is played
    more = ("--version", "1.3.0", "--extend", str(grown))
    assert generate(games, tmp_path / "compact", *more) == 0
    assert builds.digest(tmp_path / "compact") == builds.digest(tmp_path / "whole")


def opens_as(data, content) -> bool:
    assert cli.main(["verify", str(data)]) == 0
    opened = starmill.open_dataset(data)
    return opened.manifest == content and len(opened) == content.episodes


def killed(*_):
    raise errors.ConfigError("as if killed")


def test_an_increment_that_is_killed_leaves_the_old_dataset_and_continues(
    data, base, grown, games, monkeypatch
):
    before = manifest.read(str(base))
    written = []
    real = work_folder.write_result

    def fails_at_the_second(work, replay_id, result):
        if written:
            killed()
        written.append(replay_id)
        real(work, replay_id, result)

    with monkeypatch.context() as patch:
        patch.setattr(work_folder, "write_result", fails_at_the_second)
        assert extend(games[2:4], data, "1.1.0") == 2
    assert opens_as(data, before)
    with monkeypatch.context() as patch:
        patch.setattr(manifest, "write", killed)
        assert extend(games[2:4], data, "1.1.0") == 2
    assert (data / "episodes.0001.parquet").exists()
    assert opens_as(data, before)
    with monkeypatch.context() as patch:
        patch.setattr(assembly, "complete_cards", killed)
        assert extend(games[2:4], data, "1.1.0") == 2
    after = manifest.read(str(data))
    assert len(after.increments) == 1
    assert opens_as(data, after)
    with monkeypatch.context() as patch:
        patch.setattr(work_folder, "write_result", None)  # nothing is played again
        assert extend(games[2:4], data, "1.1.0") == 0
    assert not (data / "_work").exists()
    assert extend(games[4:], data, "1.2.0") == 0
    assert files(data) == files(grown)


def test_one_process_at_a_time_extends_a_dataset(data, games, capsys):
    before = files(data)
    with claims.held([str(data)]):
        assert extend(games[2:], data, "1.1.0") == 2
    assert "is writing to it" in error_of(capsys)
    assert files(data) == before


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--version", "1.0.0"], "pass a later --version"),
        (["--version", "0.9.0"], "pass a later --version"),
        (["--name", "theirs"], "differs in the name"),
        (["--selection", "all"], "differs in the selection"),
    ],
)
def test_an_increment_is_of_its_datasets_kind(
    data, games, tmp_path, capsys, more, said
):
    if "--selection" in more:
        (tmp_path / "rules.json").write_text('{"preset": "skirmish", "min_mmr": 10}')
        more = ["--selection", str(tmp_path / "rules.json")]
    before = files(data)
    assert extend(games[2:], data, "1.1.0", *more) == 2
    assert said in error_of(capsys)
    assert files(data) == before


def test_nothing_new_is_an_error_and_leaves_nothing(data, games, capsys):
    before = files(data)
    assert extend(games[:2], data, "1.1.0") == 2
    assert "nothing to add: the dataset already has all 2 replays" in error_of(capsys)
    assert files(data) == before


def test_other_replays_under_a_version_that_exists_are_an_error(grown, games, capsys):
    before = files(grown)
    assert extend(games[:3], grown, "1.2.0") == 2
    assert "nothing to add" in error_of(capsys)
    assert files(grown) == before


def test_a_reference_pins_what_is_extended(data, games, capsys):
    line = ("--version", "1.1.0", "--extend", f"{data}#sha256:{'0' * 64}")
    assert generate(games[2:], data, *line) == 2
    assert "expected sha256:0000" in error_of(capsys)
    line = ("--version", "1.1.0", "--extend", f"{data}#{builds.digest(data)}")
    assert generate(games[2:], data, *line) == 0
    assert generate(games[2:], data, *line) == 0  # it is finished
    assert table.EPISODES in files(data)

"""The agents that ship: files, names, and that they play."""

import hashlib

import pytest

from starmill import cli
from starmill.benchmark.opponents import contestants, shipped
from starmill.benchmark.ratings import results
from starmill.learners import agent_file, agents
from starmill.schema import errors, settings


@pytest.mark.parametrize("name", shipped.AGENTS)
def test_a_word_means_a_file_that_ships(name):
    one = contestants.contestant(f"skirmish:{name}")
    path, options = shipped.shipped(f"skirmish:{name}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert one.name == f"skirmish-{name}"
    assert one.kind == contestants.Kind.CHECKPOINT
    searches = "search=20&" if name == "mzs-mcts" else ""
    calm = "temperature=0.6&temperature_function=1.0&temperature_delay=1.0"
    assert one.options == options == searches + calm
    assert one.digest == f"sha256:{digest}?{options}"


def test_options_can_be_added_and_the_name_changed():
    one = contestants.contestant("calm=skirmish:mzs-mcts?temperature=0.5")
    # The later of two counts.
    wanted = f"{shipped.AGENTS['mzs-mcts'].options}&temperature=0.5"
    assert (one.name, one.options) == ("calm", wanted)
    assert one.digest.endswith(f"?{wanted}")


def test_a_name_that_does_not_ship_is_refused_with_those_that_do():
    with pytest.raises(errors.ConfigError, match="skirmish:bc, skirmish:ft-bc"):
        contestants.contestant("skirmish:alphastar")


def test_each_file_is_the_agent_it_says_trained_on_the_embedded_game():
    datasets = set()
    for name, one in shipped.AGENTS.items():
        meta, _ = agent_file.load(shipped.shipped(f"skirmish:{name}")[0])
        # Files store the name that the agent had when it was trained.
        assert agents.find(meta.run["agent"]).name == one.file
        assert meta.fingerprint
        datasets.add(meta.dataset)
    assert len(datasets) == 1
    assert "@1.0.0#sha256:" in datasets.pop()


@pytest.mark.parametrize(
    "name",
    [
        "bc",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in shipped.AGENTS
            if name != "bc"
        ),
    ],
)
def test_it_plays(name, tmp_path):
    """Half a minute of a game: actions reach the game, and the replay is kept."""
    out = tmp_path / "games"
    command = [
        "evaluate", "--agent", f"skirmish:{name}", "--opponents", "very_easy",
        "--games", "1", "--max-minutes", "0.5", "--sc2", "skirmish", "--out", str(out),
    ]  # fmt: skip
    assert cli.main(command) == 0
    (row,) = results.read_results(out / "results.csv")
    assert row.home_digest == contestants.contestant(f"skirmish:{name}").digest
    assert (row.ending, row.outcome) == ("limit", 0)
    assert (out / row.replay).stat().st_size > 0


def test_loading_needs_no_folder_of_the_user():
    agent = contestants.load(contestants.contestant("skirmish:bc"), settings.UNPLUGGED)
    assert agent.settings == settings.UNPLUGGED

import pytest

from starmill.benchmark.opponents import (
    contestants,
    random_agent,
    shipped,
    specialists,
)
from starmill.learners import acting
from starmill.schema import errors, settings

# How the agents that ship draw their actions.
CALM = {
    "temperature": "0.6",
    "temperature_function": "1.0",
    "temperature_delay": "1.0",
}


def test_words_of_the_command_line(tmp_path):
    checkpoint = tmp_path / "bc"
    checkpoint.mkdir()
    (checkpoint / "params").write_bytes(b"1")
    bot, rush, named, trained, search = contestants.contestants(
        [
            "very_hard",
            "hard+rush",
            "chance=random",
            str(checkpoint),
            f"mcts={checkpoint}?search=20",
        ]
    )
    assert (bot.name, bot.kind, bot.built_in.difficulty) == (
        "very_hard",
        contestants.Kind.BUILT_IN,
        "very_hard",
    )
    assert (rush.name, rush.built_in.build) == ("hard+rush", "rush")
    assert (named.name, named.kind, named.built_in) == (
        "chance",
        contestants.Kind.RANDOM,
        None,
    )
    assert (trained.name, trained.options) == ("bc", "")
    assert trained.digest.startswith("sha256:")
    assert (search.name, search.source, search.options) == (
        "mcts",
        str(checkpoint),
        "search=20",
    )
    assert search.digest == trained.digest + "?search=20"


def test_options_without_a_name_make_one(tmp_path):
    checkpoint = tmp_path / "mzs"
    checkpoint.mkdir()
    one = contestants.contestant(f"{checkpoint}?search=20&temperature=1.0")
    assert (one.name, one.options) == (
        "mzs+search20+temperature1.0",
        "search=20&temperature=1.0",
    )


def test_a_checkpoints_digest_follows_its_files(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    before = contestants.tree_digest(tmp_path)
    assert contestants.tree_digest(tmp_path) == before
    (tmp_path / "a").rename(tmp_path / "b")
    renamed = contestants.tree_digest(tmp_path)
    (tmp_path / "b").write_bytes(b"2")
    assert len({before, renamed, contestants.tree_digest(tmp_path)}) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("impossible", "there is no such folder"),
        ("hard+sneaky", "build: expected one of"),
        ("two words=random", "agent's name"),
    ],
)
def test_unknown_words_are_refused(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        contestants.contestant(text)


def test_two_of_one_name_are_refused_and_the_same_twice_is_one():
    assert len(contestants.contestants(["easy", "easy"])) == 1
    with pytest.raises(errors.ConfigError, match="two contestants"):
        contestants.contestants(["x=easy", "x=hard"])


def test_agents_are_made():
    agent = contestants.load(contestants.contestant("random"), settings.UNPLUGGED)
    assert isinstance(agent, random_agent.RandomAgent)
    agent = contestants.load(contestants.contestant("rush"), settings.UNPLUGGED)
    assert isinstance(agent, specialists.Specialist)
    with pytest.raises(errors.ConfigError, match="the game itself"):
        contestants.load(contestants.contestant("easy"), settings.UNPLUGGED)


@pytest.mark.parametrize("name", ["", "a b", "../x", "a-vs-b", "x" * 65, "a,b"])
def test_names_that_files_cannot_have_are_refused(name):
    with pytest.raises(errors.ConfigError, match="name"):
        contestants.check_name(name)


def test_load_agent_takes_what_evaluate_takes():
    assert isinstance(contestants.load_agent("random"), random_agent.RandomAgent)
    assert isinstance(contestants.load_agent("turtle"), specialists.Specialist)
    with pytest.raises(errors.ConfigError, match="no agent to load"):
        contestants.load_agent("very_hard")
    with pytest.raises(errors.ConfigError, match="only trained agents"):
        contestants.load_agent("rush", temperature=0.5)


@pytest.mark.parametrize(
    ("source", "keywords", "options"),
    [
        ("skirmish:bc", {}, CALM),
        ("skirmish:bc", {"temperature": 0.5}, {**CALM, "temperature": "0.5"}),
        ("skirmish:mzs-mcts", {}, {"search": "20", **CALM}),
        (
            "skirmish:mzs-mcts",
            {"search": 8, "simulations": 4, "mmr": 4000},
            {"search": "8", "simulations": "4", "mmr": "4000", **CALM},
        ),
    ],
)
def test_load_agents_keywords_override_the_sources_options(
    source, keywords, options, monkeypatch
):
    calls = []
    monkeypatch.setattr(
        acting, "load", lambda path, **given: calls.append((path, given))
    )
    contestants.load_agent(source, **keywords)
    assert calls == [(shipped.shipped(source)[0], options)]


def test_load_agent_takes_a_packed_agents_file():
    path, _ = shipped.shipped("skirmish:bc")
    assert contestants.load_agent(path).settings == settings.UNPLUGGED

import pytest

from starmill.benchmark import evaluation
from starmill.benchmark.opponents import (
    contestants,
    random_agent,
    specialists,
)
from starmill.benchmark.tournaments import referee
from starmill.schema import errors, settings

MAPS = ["Ladder2019Season3/AcropolisLE.SC2Map", "Skirmish/AmberBasin.SC2Map"]


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
        contestants.BUILT_IN,
        "very_hard",
    )
    assert (rush.name, rush.built_in.build) == ("hard+rush", "rush")
    assert (named.name, named.kind, named.built_in) == (
        "chance",
        contestants.RANDOM,
        None,
    )
    assert (trained.name, trained.options) == ("bc", "")
    assert trained.digest.startswith("sha256:")
    assert (search.name, search.what, search.options) == (
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
    made = contestants.load(contestants.contestant("random"), settings.UNPLUGGED)
    assert isinstance(made, random_agent.RandomAgent)
    made = contestants.load(contestants.contestant("rush"), settings.UNPLUGGED)
    assert isinstance(made, specialists.Specialist)
    with pytest.raises(errors.ConfigError, match="the game itself"):
        contestants.load(contestants.contestant("easy"), settings.UNPLUGGED)


def plan(**changes):
    config = {"agents": ("random", "rush"), "opponents": ("easy", "hard"), "games": 9}
    return evaluation.plan(evaluation.Config(**{**config, **changes}), MAPS)


def test_a_plan_has_every_agent_against_every_opponent():
    made = plan()
    pairs = {(f.home, f.away) for f in made.fixtures}
    assert pairs == {
        ("random", "easy"),
        ("random", "hard"),
        ("rush", "easy"),
        ("rush", "hard"),
    }
    assert len(made.fixtures) == 4 * 9
    assert made.maps == ("Skirmish/AmberBasin.SC2Map",)


def test_a_round_robin_leaves_out_what_cannot_be_played():
    pairs = {(f.home, f.away) for f in plan(round_robin=True).fixtures}
    assert len(pairs) == 5  # of six: easy against hard have no seat
    assert ("easy", "hard") not in pairs


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agents": ()}, "at least one agent"),
        ({"games": 0}, "games"),
        ({"max_minutes": 0}, "max_minutes"),
        ({"agents": ("easy",), "opponents": ("hard",)}, "nothing to play"),
        ({"maps": ("Nowhere",)}, "no map Nowhere"),
    ],
)
def test_plans_that_make_no_sense_are_refused(changes, message):
    with pytest.raises(errors.ConfigError, match=message):
        plan(**changes)


def test_maps_are_found_by_name():
    assert referee.choose_maps(MAPS, ["acropolis"]) == [MAPS[0]]
    assert referee.choose_maps(MAPS, ["Acropolis LE"]) == [MAPS[0]]
    assert referee.choose_maps(MAPS[:1]) == MAPS[:1]
    with pytest.raises(errors.ConfigError, match="none of the dataset's maps"):
        referee.choose_maps(["Melee/Simple64.SC2Map"])

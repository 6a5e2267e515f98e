import pytest

from starmill.engines.skirmish import recorded_game, versions
from starmill.engines.skirmish.replays import reader
from starmill.schema import errors


@pytest.mark.parametrize(
    ("text", "kind", "mmr", "difficulty"),
    [
        ("bot:4200", "bot", 4200, 0),
        (" Bot ", "bot", 4000, 0),
        ("random", "random", None, 0),
        ("very_hard", "computer", None, 7),
    ],
)
def test_players_are_read_from_text(text, kind, mmr, difficulty):
    player = recorded_game.parse_player(text, "zerg")
    assert (player.kind, player.mmr, player.difficulty) == (kind, mmr, difficulty)
    assert player.race == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bot:900", "an MMR from 1000 to 8000"),
        ("bot:good", "expected bot:MMR"),
        ("impossible", "expected bot:MMR, random, or one of very_easy"),
    ],
)
def test_players_that_do_not_exist_are_refused(text, message):
    with pytest.raises(errors.ConfigError, match=message):
        recorded_game.parse_player(text, "random")


def test_a_map_that_does_not_exist_is_refused():
    side = recorded_game.Player(kind="random", race=4)
    with pytest.raises(errors.ConfigError, match="map 'Nowhere': expected one of"):
        recorded_game.play_game(
            home=side, away=side, map_name="Nowhere", seed=1, version=versions.LATEST
        )


def test_the_replay_is_of_the_game_that_was_played():
    home = recorded_game.Player(kind="random", race=4, name="first")
    away = recorded_game.Player(kind="computer", race=2, difficulty=1)
    outcome = recorded_game.play_game(
        home=home,
        away=away,
        map_name=None,
        seed=8,
        version=versions.LATEST,
        max_loops=400,
    )
    assert outcome.results == ("tie", "tie")
    recording = reader.read(outcome.replay)
    assert recording.game_map.name == outcome.map_name
    assert tuple(setup.race for setup in recording.players) == outcome.races
    assert [setup.race_requested for setup in recording.players] == [4, 2]
    assert [participant.name for participant in recording.participants] == [
        "first",
        "computer",
    ]
    assert recording.loops == outcome.loops == 400
    assert outcome.line.endswith("400 loops")

"""The scripted players as the server and the ladder seat them."""

from typing import NamedTuple

from starmill.engines.skirmish import random_player

DIFFICULTIES = {
    "very_easy": 1,
    "easy": 2,
    "medium": 3,
    "medium_hard": 4,
    "hard": 5,
    "harder": 6,
    "very_hard": 7,
    "cheat_vision": 8,
    "cheat_money": 9,
    "cheat_insane": 10,
}


class Level(NamedTuple):
    """What a difficulty gives a player beside skill."""

    income: float = 1.0
    all_visible: bool = False


def computer_setup(difficulty: int) -> Level:
    """Returns the handicap of a difficulty; 0 is a participant."""
    return Level()


def computer(difficulty: int, race: int, seed: int) -> random_player.RandomPlayer:
    """Returns the built-in opponent of a difficulty."""
    return random_player.RandomPlayer(seed)


def human(mmr: int, race: int, seed: int) -> random_player.RandomPlayer:
    """Returns a player of a rating."""
    return random_player.RandomPlayer(seed)

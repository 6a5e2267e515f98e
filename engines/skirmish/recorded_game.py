"""One whole game between two computer players, played in this process and recorded.

In: who plays, the map, the seed. Out: the replay's bytes and the result. The same arguments give
the same bytes on every machine. Must not know: ladders, or where replays are stored.
"""

import dataclasses

import numpy as np

from starmill.engines.skirmish import versions, warmup
from starmill.engines.skirmish.players import bots, match, random_player
from starmill.engines.skirmish.replays import members
from starmill.engines.skirmish.replays.recorder import Recorder
from starmill.engines.skirmish.simulation import maps
from starmill.engines.skirmish.simulation.game import (
    Game,
    PlayerSetup,
)
from starmill.schema import errors
from starmill.schema.game_constants import DIFFICULTIES, RACE_IDS, RACE_NAMES, RANDOM

MIN_MMR, MAX_MMR = 1000, 8000
DEFAULT_MMR = 4000


@dataclasses.dataclass(frozen=True, kw_only=True)
class Player:
    """One side of a game.

    Attributes:
        kind: "bot" (like a person of a rating), "computer" (a built-in level) or "random".
        race: the requested race id; may be RANDOM.
        mmr: a bot's rating; None for other kinds.
        difficulty: a computer's Difficulty; 0 for other kinds.
        name: the player's name in the replay; the kind if empty.
    """

    kind: str
    race: int
    mmr: int | None = None
    difficulty: int = 0
    name: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome:
    """A finished game.

    Attributes:
        replay: the content of its replay file.
        map_name: the map's name.
        races: the race ids that players 1 and 2 played.
        results: "win", "loss" or "tie" of players 1 and 2.
        loops: the loop on which it ended.
    """

    replay: bytes
    map_name: str
    races: tuple[int, int]
    results: tuple[str, str]
    loops: int

    @property
    def line(self) -> str:
        """Returns the game as one line for people."""
        return (
            f"{self.map_name}: home {RACE_NAMES[self.races[0]]} {self.results[0]}, "
            f"away {RACE_NAMES[self.races[1]]} {self.results[1]}, {self.loops} loops"
        )


def parse_player(text: str, race: str) -> Player:
    """Returns a player from "bot:4200", "random" or a difficulty such as "very_hard"."""
    name = text.strip().lower()
    number = RACE_IDS[race]
    if name == "random":
        return Player(kind="random", race=number, name="random")
    if name.startswith("bot"):
        digits = name.removeprefix("bot").removeprefix(":") or str(DEFAULT_MMR)
        if not digits.isdigit() or not MIN_MMR <= int(digits) <= MAX_MMR:
            raise errors.ConfigError(
                f"player {text!r}: expected bot:MMR with an MMR from {MIN_MMR} to {MAX_MMR}"
            )
        return Player(kind="bot", race=number, mmr=int(digits), name=f"bot {digits}")
    if name in DIFFICULTIES:
        level = DIFFICULTIES[name]
        return Player(kind="computer", race=number, difficulty=level, name=name)
    raise errors.ConfigError(
        f"player {text!r}: expected bot:MMR, random, or one of {', '.join(DIFFICULTIES)}"
    )


def _actor(player: Player, race: int, seed: int, opponent: Player) -> match.Player:
    if player.kind == "random":
        return random_player.RandomPlayer(seed)
    if player.kind == "computer":
        return bots.computer(player.difficulty, race, seed)
    return bots.human(player.mmr or DEFAULT_MMR, race, seed, opponent_mmr=opponent.mmr)


def play_game(
    *,
    home: Player,
    away: Player,
    map_name: str | None,
    seed: int,
    version: versions.Version,
    max_loops: int = match.MAX_LOOPS,
) -> Outcome:
    """Plays one game to its end.

    The seed decides random races, the start locations and, if `map_name` is None, the map.
    """
    known = (*maps.MAPS, *maps.STAND_INS)
    if map_name is not None and map_name not in known:
        raise errors.ConfigError(
            f"map {map_name!r}: expected one of {', '.join(known)}"
        )
    warmup.ready()
    rng = np.random.Generator(np.random.PCG64(seed))
    names = list(maps.MAPS)
    played_map = names[int(rng.integers(len(names)))] if map_name is None else map_name
    start = int(rng.integers(2))
    setups, participants = [], []
    actors: list[match.Player] = []
    for index, player in enumerate((home, away)):
        random_race = int(rng.integers(1, 4))
        race = random_race if player.race == RANDOM else player.race
        level = bots.computer_setup(player.difficulty)
        setups.append(
            PlayerSetup(
                race_requested=player.race,
                race=race,
                start=start if index == 0 else 1 - start,
                income=level.income,
                all_visible=level.all_visible,
            )
        )
        actors.append(
            _actor(player, race, int(rng.integers(2**31)), (away, home)[index])
        )
        participants.append(
            members.Participant(
                name=player.name or player.kind,
                mmr=player.mmr,
                computer=player.kind == "computer",
                difficulty=player.difficulty,
            )
        )
    game = Game(
        maps.map_named(played_map), (setups[0], setups[1]), int(rng.integers(2**31))
    )
    recorder = Recorder(game, (participants[0], participants[1]), version)

    def watch() -> None:
        recorder.watch()
        game.take_errors()

    match.play_out(game, actors, max_loops=max_loops, admit=recorder.admit, watch=watch)
    if game.result is None:
        raise AssertionError("play_out stops at a result")
    result = game.result
    return Outcome(
        replay=recorder.replay(),
        map_name=played_map,
        races=(setups[0].race, setups[1].race),
        results=(result[1], result[2]),
        loops=game.loop,
    )

"""The scripted opponents in real games: each does what its style says, with every race."""

import numpy as np
import pytest

from starmill.benchmark.games import live_game
from starmill.benchmark.games.built_in import BuiltIn
from starmill.benchmark.opponents import (
    building_sites,
    random_agent,
    specialists,
    styles,
)
from starmill.engines.pool import SKIRMISH, Pool, PoolConfig
from starmill.schema import settings, specs, vocab

SETTINGS = settings.UNPLUGGED
MINUTE = 1344  # game loops


class Watched:
    """A specialist whose army and first attack are written down."""

    def __init__(self, style):
        self._player = specialists.Specialist(SETTINGS, styles.STYLES[style])
        self.settings = SETTINGS
        self.most = {}
        self.attack_loop = None
        self.last = None

    def reset(self, seed, race):
        self._player.reset(seed, race)

    def act(self, observation):
        self.last = observation
        units = observation["raw_units"]
        own = units[units[:, random_agent.COLUMN["alliance"]] == random_agent.OWN]
        done = own[own[:, random_agent.COLUMN["build_progress"]] >= 100]
        names = vocab.names("unit_types")
        kinds, counts = np.unique(
            done[:, random_agent.COLUMN["unit_type"]], return_counts=True
        )
        for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True):
            self.most[names[kind]] = max(self.most.get(names[kind], 0), count)
        action = self._player.act(observation)
        attack = vocab.function_named("Attack_pt").id
        if int(action["function"]) == attack and self.attack_loop is None:
            self.attack_loop = int(observation["game_loop"])
        return action


@pytest.fixture(scope="module")
def play():
    pool = Pool(PoolConfig(root=SKIRMISH, deadlines=live_game.DEADLINES))

    def run(style, race, minutes):
        player = Watched(style)
        setup = live_game.GameSetup(
            map_path="Skirmish/AmberBasin.SC2Map",
            seed=5,
            races=(race, "terran"),
            opponent=BuiltIn(difficulty="very_easy"),
            max_loops=minutes * MINUTE,
        )
        with pool.lease(pool.installation.newest(), 1) as games:
            clients = live_game.clients_of(games)
            ending = live_game.play(
                clients, setup, [player], live_game.DEADLINES
            ).ending
        return player, ending

    yield run
    pool.close()


def check(style, race, player):
    wanted, plan = styles.STYLES[style], styles.RACE_UNITS[race]
    halls = sum(player.most.get(hall, 0) for hall in plan.halls)
    # It makes what its style lists, and does not go far beyond.
    assert player.most[plan.worker] >= 0.7 * wanted.workers
    assert player.most[plan.worker] <= wanted.workers + 4
    assert player.most[plan.production] >= min(plan.most_production, 2)
    assert player.most[plan.soldier] >= 4
    if plan.defence and wanted.defences:
        assert player.most[plan.defence] >= 2
    else:
        assert plan.defence not in player.most
    return halls


def ground(**planes):
    """Open, explored ground of 60 x 60 pixels; a pixel, a cell and a world unit are one."""
    every = {name: np.ones((60, 60), bool) for name in ("buildable", "pathable")}
    every |= {"explored": np.ones((60, 60), bool), "creep": np.zeros((60, 60), bool)}
    return building_sites.Ground(**(every | planes), ratio=1.0, scale=1.0)


def test_walks_go_round_walls_and_stop_at_them():
    pathable = np.ones((60, 60), bool)
    pathable[:50, 30] = False
    pathable[:, 40] = False
    steps = building_sites.walking_steps(
        ground(pathable=pathable), np.array([10.0, 10.0])
    )
    # The walk begins five pixels beside the hall.
    assert steps[10, 10] == steps[15, 15] == 0
    assert steps[10, 20] == 5
    # To the wall's end at row 50 and back: 35 down, 20 right, 40 up.
    assert steps[10, 35] == 35 + 20 + 40
    assert (steps[:, 41:] == -1).all()


def test_a_town_hall_keeps_off_resources_and_the_shortest_walk_comes_first():
    line = np.array([[0.0, 4.0 - 2 * i] for i in range(5)])
    bases = np.array([[12.0, 45.0], [45.0, 12.0], [45.0, 45.0]])
    fields = np.concatenate([line + base for base in bases])
    geysers = np.array([[45.0, 38.0]])
    wall = np.ones((60, 60), bool)
    wall[25, :40] = False  # the first base is near, and far to walk
    taken = np.array([[50.0, 50.0]])
    start = np.array([10.0, 10.0])
    result = building_sites.town_hall_places(
        fields, geysers, taken, ground(pathable=wall), start
    )
    assert len(result) == 2
    for place, base in zip(result, (bases[1], bases[0]), strict=True):
        # Half a hall, half a field, three cells between them, half a one for rounding.
        assert abs(place[0] - base[0]) == 2.5 + 1.0 + 3.0 + 0.5
        assert abs(place[1] - base[1]) <= 1


def test_a_town_hall_needs_explored_and_open_ground():
    hidden = np.ones((60, 60), bool)
    hidden[22, 22] = False
    place = np.array([20.0, 20.0])
    assert ground().is_explored(place)
    assert ground().is_open(place)
    assert not ground(explored=hidden).is_explored(place)
    assert not ground(buildable=hidden).is_open(place)
    assert ground(explored=hidden).is_explored(place - 1)
    assert not ground().is_open(np.array([1.0, 20.0]))


@pytest.mark.parametrize("race", ["terran", "protoss", "zerg"])
def test_a_rush_attacks_early_from_one_base(play, race):
    player, _ = play("rush", race, 5)
    assert check("rush", race, player) == 1
    assert player.attack_loop is not None
    assert player.attack_loop < 5 * MINUTE


def test_without_a_town_hall_it_plays_on_and_builds_one(play):
    player, _ = play("rush", "terran", 2)
    units = player.last["raw_units"]
    halls = [
        vocab.ids("unit_types")[name] for name in styles.RACE_UNITS["terran"].halls
    ]
    left = units[~np.isin(units[:, random_agent.COLUMN["unit_type"]], halls)]
    bare = dict(player.last, raw_units=np.zeros_like(units))
    bare["raw_units"][: len(left)] = left
    bare["player"] = np.where(
        np.arange(len(bare["player"])) == specs.PLAYER_COLUMNS.index("minerals"),
        1000,
        bare["player"],
    )
    homeless = specialists.Specialist(SETTINGS, styles.STYLES["rush"])
    homeless.reset(1, "terran")
    homeless.act(player.last)
    done = {int(homeless.act(bare)["function"]) for _ in range(4)}
    assert vocab.function_named("Build_CommandCenter_pt").id in done


@pytest.mark.slow
@pytest.mark.parametrize("race", ["terran", "protoss", "zerg"])
def test_an_economy_takes_a_second_base(play, race):
    player, _ = play("economy", race, 9)
    assert check("economy", race, player) == 2
    units = player.last["raw_units"]
    halls = [vocab.ids("unit_types")[name] for name in styles.RACE_UNITS[race].halls]
    own = units[units[:, random_agent.COLUMN["alliance"]] == random_agent.OWN]
    own = own[np.isin(own[:, random_agent.COLUMN["unit_type"]], halls)]
    # Both are mined from: a full base has sixteen workers at its minerals.
    assert own[:, random_agent.COLUMN["assigned_harvesters"]].min() >= 10


@pytest.mark.slow
@pytest.mark.parametrize("race", ["terran", "protoss", "zerg"])
def test_a_turtle_stays_at_home(play, race):
    player, _ = play("turtle", race, 8)
    assert check("turtle", race, player) == 1


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_specialists_beat_the_easiest_level(play):
    won = [
        play(style, race, 20)[1].outcomes[0]
        for style, race in (
            ("rush", "zerg"),
            ("rush", "terran"),
            ("economy", "terran"),
            ("turtle", "protoss"),
        )
    ]
    assert sum(won) >= 2, won

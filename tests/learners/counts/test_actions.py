"""Tables of what was ever done: against a slow count, and by hand."""

import dataclasses

import numpy as np
import pytest

from starmill.learners.counts import actions, states
from starmill.schema import specs, vocab
from starmill.schema.loader import dataset
from tests.factories import small_agents

SETTINGS = small_agents.SETTINGS
FUNCTIONS = small_agents.FUNCTIONS
UNIT = {name: i for i, name in enumerate(specs.unit_columns(SETTINGS))}
PLAYER = {name: i for i, name in enumerate(specs.PLAYER_COLUMNS)}
PLANES = [("creep", 1), ("visibility_map", 2)]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    small_agents.write_dataset(folder, episodes=9)
    return dataset.open_dataset(str(folder))


@pytest.fixture(scope="module")
def tables(data):
    return actions.count(data, PLANES)


def _steps(data):
    """Every step that is trained on: its function, units, and a lookup of other arrays."""
    for episode in data:
        arrays = episode.read()
        for t in range(len(arrays["step_type"]) - 1):
            units = arrays["raw_units"][t]
            used = np.flatnonzero((units != 0).any(1)).max() + 1
            yield int(arrays["action/function"][t]), units[:used], arrays, t


def test_the_tables_have_their_shapes(tables):
    assert {name: table.shape for name, table in tables.items()} == states.shapes(
        FUNCTIONS, len(PLANES)
    )


def test_commanded_units_are_those_that_occur(data, tables):
    occur = {}
    for function, units, arrays, t in _steps(data):
        for row in arrays["action/unit_tags"][t] if function else ():
            if row < len(units):
                unit = units[row]
                orders = min(int(unit[UNIT["order_length"]]), 2)
                is_finished = unit[UNIT["build_progress"]] >= 100
                kind = int(unit[UNIT["unit_type"]])
                state = 1 + orders if is_finished else 0
                occur.setdefault(function, set()).add((kind, state))
    assert occur
    for function in range(FUNCTIONS):
        for kind in range(states.TYPES):
            bits = int(tables["commanded"][function, kind])
            for state in range(states.COMMANDED):
                is_forbidden = bool(bits >> state & 1)
                expected = function in occur and (kind, state) not in occur[function]
                assert is_forbidden == expected


def test_targets_are_those_that_occur(data, tables):
    occur = {}
    for function, units, arrays, t in _steps(data):
        if "target_unit_tag" in vocab.functions()[function].args:
            unit = units[arrays["action/target_unit_tag"][t]]
            kind, alliance = (int(unit[UNIT[n]]) for n in ("unit_type", "alliance"))
            own_state = int(unit[UNIT["buff_id_0"]] > 0)
            state = {1: own_state, 3: 2}.get(alliance, 3)
            occur.setdefault(function, set()).add((kind, state))
    assert occur
    for function, pairs in occur.items():
        table = tables["targets"][function].astype(int)
        allowed = {
            (kind, state)
            for kind in range(states.TYPES)
            for state in range(states.TARGETED)
            if not table[kind] >> state & 1
        }
        assert allowed == pairs


def test_races_are_those_that_used_a_function(data, tables):
    used = {
        (function, int(arrays["home_race_requested"][t]))
        for function, _, arrays, t in _steps(data)
    }
    for function in range(FUNCTIONS):
        for race in range(states.RACES):
            assert (tables["races"][function, race] == 0) == ((function, race) in used)


class _Hand:
    """Counts actions of one function that differ in what a test says."""

    def __init__(self):
        self.counter = actions._Counter(SETTINGS, PLANES)
        self.function = small_agents.kinds()["cmd_pt"]

    def add(self, function=None, minerals=0, free=0, free_after=0, world=27, **planes):
        units = np.zeros((1, 2, 1, len(UNIT)), np.int32)
        for name, value in (("unit_type", 5), ("alliance", 1), ("build_progress", 100)):
            units[..., UNIT[name]] = value
        units[..., UNIT["order_length"]] = 1
        player = np.zeros((1, 2, len(PLAYER)), np.int32)
        player[..., PLAYER["minerals"]] = minerals
        player[0, :, PLAYER["food_cap"]] = free, free_after
        tags = np.full((1, 2, small_agents.SLOTS), small_agents.UNITS)
        tags[..., 0] = 0
        side = small_agents.SIDE
        number = np.full((1, 2), self.function if function is None else function)
        batch = {
            "units": units,
            "unit_count": np.ones((1, 2), np.int32),
            "player": player,
            "home_race_requested": np.ones((1, 2), np.int32),
            "valid": np.ones((1, 2), bool),
            "action/function": number,
            "action/unit_tags": tags,
            "action/world": np.full((1, 2), world),
            **{
                f"minimap_{name}": planes.get(name, np.zeros((1, 2, side, side)))
                for name, _ in PLANES
            },
        }
        self.counter.add(batch, (0, 0))


def test_a_price_is_a_floor_and_what_everybody_has_is_not():
    hand = _Hand()
    for number in range(100):
        # One in a hundred is below the price: an accident.
        hand.add(minerals=150 + number if number else 10)
        hand.add(function=10, minerals=number)
    floors = hand.counter.tables()["floors"]
    assert floors[hand.function, 0] == 151
    assert floors[10, 0] == 0
    assert (floors[:, 1:] == 0).all()


def test_supply_is_a_floor_only_where_it_is_used_up():
    hand = _Hand()
    for number in range(100):
        hand.add(free=2 + number % 5, free_after=0)
        hand.add(function=8, free=2 + number % 5, free_after=9)
        hand.add(function=10, free=number % 2, free_after=9)
    floors = hand.counter.tables()["floors"]
    assert floors[hand.function, 2] == 2
    assert floors[8, 2] == 0


def test_few_uses_say_nothing_about_prices_and_needs():
    hand = _Hand()
    for number in range(100):
        if number < 49:
            hand.add(minerals=500)
        hand.add(function=10, minerals=number)
    tables = hand.counter.tables()
    assert (tables["floors"] == 0).all()
    assert not tables["needed"][hand.function].any()
    assert tables["needed"][10, 5] == 1


def test_ground_is_forbidden_where_a_feature_never_has_a_value():
    hand = _Hand()
    side = small_agents.SIDE
    creep = np.zeros((1, 2, side, side))
    creep[:, :, 2:5, 2:5] = 1
    for _ in range(60):
        hand.add(world=3 * side + 3, creep=creep)
    (ground,) = hand.counter.tables()["ground"][[hand.function]].reshape(1, -1, 2)
    # Always on creep, with creep around, never seen, and no unit without orders near.
    assert ground[:, 0].tolist() == [1, 0, 1, 0, 0, 0, 0]
    assert ground[:, 1].tolist() == [0, 1, 0, 1, 1, 1, 1]


def test_rare_accidents_are_forbidden():
    counts = np.zeros((1, states.TYPES, 2))
    counts[0, 3], counts[0, 4] = (999, 1), (0, 1000)
    bits = actions._bits(counts)
    assert bits[0, 3] == 2
    assert bits[0, 4] == 1
    assert bits[0, 5] == 3


def test_settings_with_other_players_do_not_matter():
    smaller = dataclasses.replace(SETTINGS, num_action_types=3)
    assert actions._Counter(smaller, PLANES).tables()["races"].shape == (3, 5)

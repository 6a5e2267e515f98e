"""Masks of what was ever done, by hand, in scores and in samples; and that they are never trained."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from starmill.learners import acting, agent_file, runs, training
from starmill.learners.algorithms import contract, oac
from starmill.learners.counts import actions, states
from starmill.learners.networks import parameters
from starmill.learners.networks.compact import aim
from starmill.schema import specs
from tests.factories import small_agents
from tests.learners.networks.compact.test_compact_network import (
    COLUMN,
    CONFIG,
    FRAMES,
    POINT,
    SETTINGS,
)

LEGAL = dataclasses.replace(CONFIG, legal_actions=True)
PARAMS = parameters.init(3, LEGAL, SETTINGS)
SHAPES = states.shapes(SETTINGS.num_action_types, len(aim.planes_of(SETTINGS)))
TARGET = small_agents.kinds()["cmd_unit"]


def _tables(**changes):
    tables = {name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}
    for name, change in changes.items():
        change(tables[name])
    return tables


def _params(**changes):
    return parameters.with_counts(PARAMS, _tables(**changes))


def _anchored(params):
    """Returns parameters whose target points always have a unit as anchor."""
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: (
            leaf - 100.0 if "no_anchor" in str(path) and leaf.ndim == 1 else leaf
        ),
        params,
    )


@jax.jit
def _functions(params, frames):
    network = parameters.merge(params, LEGAL, SETTINGS)
    return network.encode(frames).standing.functions


def _set(index, value=1.0):
    def change(table):
        table[index] = value

    return change


def test_empty_tables_forbid_nothing():
    assert np.asarray(_functions(PARAMS, FRAMES)).all()
    plain = parameters.init(3, CONFIG, SETTINGS)

    def score(params, config):
        network = parameters.merge(params, config, SETTINGS)
        latent = network.encode(FRAMES)
        action = network.policy.sample(latent, jax.random.key(0))
        return action, network.policy.score(latent, action).log_prob

    both = jax.jit(lambda: (score(PARAMS, LEGAL), score(plain, CONFIG)))()
    without = parameters.without_counts(PARAMS)
    assert jax.tree.structure(without) == jax.tree.structure(plain)
    legal = jax.jit(lambda: score(without, CONFIG))()
    jax.tree.map(np.testing.assert_allclose, both[0], legal)


def test_a_race_that_never_used_a_function_does_not():
    frames = {**FRAMES, "home_race_requested": np.arange(8) % 3}
    params = _params(races=_set((4, 1)))
    legal = np.asarray(_functions(params, frames))
    np.testing.assert_array_equal(legal[:, 4], frames["home_race_requested"] != 1)
    assert legal[:, [0, 1, 2, 3, 5]].all()


def test_supply_below_zero_forbids_nothing_without_a_floor():
    player = FRAMES["player"].copy()
    column = {name: i for i, name in enumerate(specs.PLAYER_COLUMNS)}
    player[:, column["food_cap"]], player[:, column["food_used"]] = 10, 19
    frames = {**_units(), "player": player}
    legal = np.asarray(_functions(_params(races=_set((4, slice(None)))), frames))
    assert not legal[:, 4].any()
    assert legal[:, [0, 1, 2, 3, 5]].all()


def test_a_price_must_be_there():
    player = FRAMES["player"].copy()
    column = {name: i for i, name in enumerate(specs.PLAYER_COLUMNS)}
    player[:, column["minerals"]] = np.arange(8) * 50
    player[:, column["food_cap"]], player[:, column["food_used"]] = 20, 19
    params = _params(floors=lambda table: table.__setitem__((4, 0), 150))
    legal = np.asarray(_functions(params, {**FRAMES, "player": player}))
    np.testing.assert_array_equal(legal[:, 4], np.arange(8) >= 3)
    params = _params(floors=lambda table: table.__setitem__((4, 2), 2))
    assert not np.asarray(_functions(params, {**FRAMES, "player": player}))[:, 4].any()


def _units(**columns):
    """Frames in which every unit is the player's own and finished, and has the given columns."""
    units = FRAMES["units"].copy()
    valid = np.arange(units.shape[1]) < FRAMES["unit_count"][:, None]
    for name, value in {"alliance": 1, "build_progress": 100, **columns}.items():
        units[..., COLUMN[name]] = np.where(valid, value, 0)
    return {**FRAMES, "units": units}


def test_a_needed_unit_must_be_there_and_finished():
    params = _params(needed=_set((4, 9)))
    assert np.asarray(_functions(params, _units(unit_type=9)))[:, 4].all()
    assert not np.asarray(_functions(params, _units(unit_type=8)))[:, 4].any()
    unfinished = _units(unit_type=9, build_progress=99)
    assert not np.asarray(_functions(params, unfinished))[:, 4].any()


def test_a_function_needs_a_unit_that_it_may_command_or_target():
    # State 1 is finished and idle, 2 has an order.
    params = _params(commanded=_set((POINT, 9), 2.0**1))
    legal = np.asarray(_functions(params, _units(unit_type=9, order_length=0)))
    assert not legal[:, POINT].any()
    assert legal[:, TARGET].all()
    legal = np.asarray(_functions(params, _units(unit_type=9, order_length=1)))
    assert legal[:, POINT].all()
    params = _params(energies=_set((POINT, 9), 2.0**0 + 2.0**1))
    for energy, expected in ((49, False), (50, True)):
        legal = np.asarray(_functions(params, _units(unit_type=9, energy=energy)))
        assert legal[:, POINT].all() == legal[:, POINT].any() == expected
    params = _params(targets=_set((TARGET, 9), 2.0**1))
    for buff, expected in ((0, True), (6, False)):
        legal = np.asarray(_functions(params, _units(unit_type=9, buff_id_0=buff)))
        assert legal[:, TARGET].all() == legal[:, TARGET].any() == expected
        assert legal[:, POINT].all()


def test_sampled_and_scored_actions_are_legal():
    """Odd types are never commanded, even ones never targets."""

    def odd(table):
        table[:, 1::2] = 15

    def even(table):
        table[:, 0::2] = 15

    params = _params(commanded=odd, targets=even)
    frames = _units()
    rng = np.random.default_rng(0)
    kinds = rng.integers(1, 20, frames["units"].shape[:2])
    # Both kinds are in every frame.
    kinds[:, 0], kinds[:, 1] = 4, 5
    valid = np.arange(kinds.shape[1]) < frames["unit_count"][:, None]
    frames["units"][..., COLUMN["unit_type"]] = kinds * valid

    @jax.jit
    def play(key):
        network = parameters.merge(params, LEGAL, SETTINGS)
        latent = network.encode(frames)
        action = network.policy.sample(latent, key)
        wrong = {**action, "unit_tags": jnp.ones_like(action["unit_tags"])}
        scores = network.policy.score
        return action, scores(latent, action), scores(latent, wrong)

    for seed in range(5):
        action, scores, wrong = jax.tree.map(np.asarray, play(jax.random.key(seed)))
        for row, function in enumerate(action["function"]):
            if not function:
                continue
            tags = action["unit_tags"][row]
            used = tags[tags < small_agents.UNITS]
            assert len(used)
            assert (kinds[row, used] % 2 == 0).all()
            assert wrong.impossible["unit_tags"][row] == 1
            if scores.present["target_unit_tag"][row]:
                assert kinds[row, action["target_unit_tag"][row]] % 2 == 1
        for name, impossible in scores.impossible.items():
            assert not impossible.any(), name


def test_target_points_are_on_ground_that_was_used():
    """Only cells that are seen now, which are the left half of the map."""
    planes = [name for name, _ in aim.valued_planes(SETTINGS)]
    seen = planes.index("visibility_map")
    params = _anchored(_params(ground=_set((POINT, 2 * seen))))
    frames = _units()
    visibility = np.zeros_like(frames["minimap_visibility_map"])
    visibility[:, :, : small_agents.SIDE // 2] = 2
    frames["minimap_visibility_map"] = visibility
    # All units are where they see.
    frames["units"][..., COLUMN["x"]] = 1

    @jax.jit
    def play(key):
        network = parameters.merge(params, LEGAL, SETTINGS)
        latent = network.encode(frames)
        function = jnp.full(8, POINT)
        return network.policy.sample_rest(latent, function, function, key)["world"]

    def share(world):
        return (np.asarray(world) % small_agents.SIDE < small_agents.SIDE // 2).mean()

    keys = jax.random.split(jax.random.key(0), 40)
    shares = [share(play(key)) for key in keys]
    assert np.mean(shares) == 1


@pytest.mark.parametrize(
    "table, value, distances", [("apart", 2.0, {2}), ("near", 2.0, {0, 1})]
)
def test_target_points_keep_their_distance_to_units(table, value, distances):
    params = _anchored(_params(**{table: _set((POINT, 9), value)}))
    frames = _units(unit_type=9, x=4, y=4)

    @jax.jit
    def play(key):
        network = parameters.merge(params, LEGAL, SETTINGS)
        latent = network.encode(frames)
        function = jnp.full(8, POINT)
        return network.policy.sample_rest(latent, function, function, key)["world"]

    away = []
    for key in jax.random.split(jax.random.key(0), 20):
        y, x = np.divmod(np.asarray(play(key)), small_agents.SIDE)
        away.append(np.maximum(abs(x - 4), abs(y - 4)))
    assert set(np.concatenate(away).tolist()) == distances


@pytest.mark.parametrize("agent", ["oac", "e-oac", "ppo"])
def test_actor_critics_learn_nothing_from_illegal_actions(agent):
    """A recorded function that no race uses in the counts has no weight."""
    config = small_agents.run(agent, network=LEGAL).algorithm
    batch = small_agents.batch(size=config.batch_size, steps=config.rollout)
    batch["action/function"][:, 0] = POINT

    @jax.jit
    def evaluate(params):
        return oac.evaluate(params, params, batch, config, 0.999)

    everything = evaluate(PARAMS)
    legal = evaluate(_params(races=_set(POINT)))
    assert np.asarray(everything.weight[0]).any()
    is_point = batch["action/function"].T == POINT
    expected = np.where(is_point, 0.0, everything.weight)
    np.testing.assert_array_equal(legal.weight, expected)
    assert np.abs(legal.log_mu).max() < 1e3


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of a run with legal actions, and its data."""
    data = small_agents.write_dataset(tmp_path_factory.mktemp("data"))
    run = small_agents.run("bc", network=LEGAL, weight_penalty=0.1, weight_decay=0.1)
    folder = tmp_path_factory.mktemp("runs") / "bc"
    assert training.train(run, data, folder, devices=1).problem is None
    return folder, data, run


def test_a_run_counts_its_games_and_never_trains_the_counts(trained, tmp_path):
    folder, data, run = trained
    expected = actions.count(data.filter(split="train"), aim.valued_planes(SETTINGS))
    stored = agent_file.load_trained(folder)
    fresh = parameters.init(run.seed, LEGAL, SETTINGS)
    for name, table in stored.params["policy"]["legal"]["tables"].items():
        np.testing.assert_array_equal(table, expected[name])
    assert any(table.any() for table in expected.values())
    moved = stored.params["value_head"]["first"]["kernel"]
    assert np.abs(moved - fresh["value_head"]["first"]["kernel"]).max() > 1e-4
    # A file has half precision, which holds them exactly.
    agent_file.pack(folder, tmp_path / "bc.agent")
    packed = agent_file.load_trained(tmp_path / "bc.agent").params
    for name, table in packed["policy"]["legal"]["tables"].items():
        np.testing.assert_array_equal(table, expected[name])


def test_an_agent_plays_with_and_without_its_counts(trained):
    folder, *_ = trained
    observation = small_agents.observation()
    for option in ("0", "1"):
        agent = acting.load(folder, legal=option)
        agent.reset(seed=3)
        assert agent.act(observation)["function"] >= 0
    with pytest.raises(Exception, match="legal: expected a number"):
        acting.load(folder, legal="perhaps")


def test_an_agent_without_counts_can_be_a_start(trained, tmp_path):
    _, data, run = trained
    plain = runs.replace(run, network=CONFIG)
    training.train(plain, data, tmp_path / "plain", devices=1, stop_after=1)
    folder = tmp_path / "next"
    training.train(run, data, folder, devices=1, init=tmp_path / "plain", stop_after=1)
    tables = agent_file.load_trained(folder).params["policy"]["legal"]["tables"]
    assert any(np.asarray(table).any() for table in tables.values())


def test_the_penalty_leaves_counts_out():
    params = _params(floors=_set((4, 0), 100.0))
    assert contract.weight_penalty(params, 1.0) == contract.weight_penalty(PARAMS, 1.0)
    gradient = jax.grad(lambda p: contract.weight_penalty(p, 1.0))(params)
    assert not np.asarray(gradient["policy"]["legal"]["tables"]["floors"]).any()

"""The compact network: distributions by enumeration, sampling against scoring, and training."""

import dataclasses
import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from starmill.learners import acting, learner, rollouts, runs, splits
from starmill.learners.algorithms import bc
from starmill.learners.networks import parameters, policy, scoring
from starmill.learners.networks.compact import selection, unit_stream
from starmill.learners.networks.compact.config import CompactConfig
from starmill.learners.networks.compact.unit_stream import Facts
from starmill.learners.networks.network import NetworkConfig
from starmill.schema import errors, specs, vocab
from tests.factories import small_agents

SETTINGS = small_agents.SETTINGS
CELLS = small_agents.SIDE**2
# As many anchors as there are units, so that the mixture over them is exact.
CONFIG = CompactConfig(
    vector=16,
    vector_blocks=1,
    unit=8,
    unit_hidden=8,
    queries=2,
    anchors=small_agents.UNITS,
    reach=2,
    patch=4,
    areas=4,
)
PARAMS = parameters.init(3, CONFIG, SETTINGS)
COLUMN = {name: i for i, name in enumerate(specs.unit_columns(SETTINGS))}
POINT = small_agents.kinds()["cmd_pt"]


def _network():
    return parameters.merge(PARAMS, CONFIG, SETTINGS)


def _frames(seed=2):
    """Frames whose units are on the grid, and of which at least one is the player's own."""
    frames = rollouts.flatten(small_agents.batch(seed=seed, size=2, steps=4))
    units = frames["units"].copy()
    rng = np.random.default_rng(seed)
    for name in ("x", "y"):
        units[..., COLUMN[name]] = rng.integers(0, small_agents.SIDE, units.shape[:2])
    units[..., COLUMN["alliance"]] = rng.choice([1, 1, 3, 4], units.shape[:2])
    units[:, 0, COLUMN["alliance"]] = 1
    valid = np.arange(units.shape[1]) < frames["unit_count"][:, None]
    return {**frames, "units": units * valid[..., None]}


FRAMES = _frames()


@pytest.fixture(scope="module")
def latent():
    return jax.jit(lambda frames: _network().encode(frames))(FRAMES)


def _repeated(latent, row, count):
    return jax.tree.map(
        lambda leaf: jnp.repeat(leaf[row : row + 1], count, axis=0), latent
    )


def _point_action(count, world):
    tags = np.full((count, small_agents.SLOTS), small_agents.UNITS, np.int32)
    tags[:, 0] = 0
    zero = np.zeros(count, np.int32)
    return {
        "function": zero + POINT,
        "delay": zero + 5,
        "queued": zero,
        "repeat": zero,
        "unit_tags": tags,
        "target_unit_tag": zero,
        "world": np.asarray(world, np.int32),
    }


def _scene(network, latent, action):
    """What the aim depends on after the given arguments."""
    heads = network.policy
    present = heads.present(action["function"])
    context = heads.embed(latent.vector, action["function"], action["delay"])
    for name in ("queued", "repeat"):
        context += heads.embeds[name](action[name])
    given = selection.members(action["unit_tags"], latent.facts, latent.turn)
    commanded = present["unit_tags"] & (given.total > 0)
    related = heads.selection.relate(
        context, action["function"], latent.units, latent.facts, given.first, commanded
    )
    return heads._scene(
        context, action["function"], latent, given.first, commanded, related
    )


def test_the_probabilities_of_all_target_points_add_up_to_one(latent):
    score = jax.jit(lambda latent, action: _network().policy.score(latent, action))
    for row in range(3):
        many = _repeated(latent, row, CELLS)
        world = score(many, _point_action(CELLS, np.arange(CELLS))).log_prob["world"]
        assert np.exp(world).sum() == pytest.approx(1, abs=1e-4)


def test_sampled_target_points_follow_the_probabilities(latent):
    count = 6000
    many = _repeated(latent, 1, count)
    action = _point_action(count, np.arange(count) % CELLS)

    @jax.jit
    def both(latent, key):
        network = _network()
        scene = _scene(network, latent, action)
        log_prob, _ = network.policy.aim.log_prob(scene, action["world"])
        return log_prob, network.policy.aim.sample(scene, key, 1.0)

    log_prob, drawn = both(many, jax.random.key(5))
    expected = np.exp(np.asarray(log_prob)[:CELLS])
    shares = np.bincount(np.asarray(drawn), minlength=CELLS) / count
    np.testing.assert_allclose(shares, expected, atol=0.02)
    assert expected.max() > 0.03  # the units stand out


def test_fewer_anchors_give_a_bound_from_below(latent):
    """With all anchors the mixture is exact; with one it cannot be more likely."""
    few = dataclasses.replace(CONFIG, anchors=1)
    many = _repeated(latent, int(FRAMES["unit_count"].argmax()), CELLS)
    action = _point_action(CELLS, np.arange(CELLS))

    def world(config):
        network = parameters.merge(PARAMS, config, SETTINGS)
        return network.policy.score(many, action).log_prob["world"]

    exact, bound = jax.jit(lambda: (world(CONFIG), world(few)))()
    assert (bound <= exact + 1e-5).all()
    assert (bound < exact - 1e-4).any()


def test_a_selections_probability_is_bounded_by_its_exact_one():
    """All selections of four own units: the exact probabilities add up to one."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=4)
    also = rng.normal(size=(4, 4))  # [first, unit]
    own = np.array([True, True, True, True, False])
    facts = _facts(own)

    def log_sigmoid(x):
        return -np.logaddexp(0, -x)

    normal = first - np.logaddexp.reduce(first)
    total = 0.0
    for size in range(1, 5):
        for members in itertools.combinations(range(4), size):
            exact = []
            for one in members:
                signs = [1 if u in members else -1 for u in range(4)]
                others = sum(
                    log_sigmoid(signs[u] * also[one, u]) for u in range(4) if u != one
                )
                exact.append(normal[one] + others)
            total += np.exp(exact).sum()
            bounds = []
            for turn, one in enumerate(members):
                given = selection.members(
                    jnp.asarray([[*members, *[5] * (5 - size)]]),
                    facts,
                    jnp.asarray([turn]),
                )
                assert (int(given.first[0]), int(given.total[0])) == (one, size)
                logits = jnp.asarray([[*first, -1e9]])
                others = jnp.asarray([[*also[one], 3.0]])
                bound, _, _ = selection.log_prob(logits, others, facts, given)
                bounds.append(float(bound[0]))
            assert np.mean(bounds) <= np.logaddexp.reduce(exact) + 1e-5
            if size == 1:
                assert bounds[0] == pytest.approx(exact[0], abs=1e-5)
    assert total == pytest.approx(1)


def _facts(own):
    line = jnp.asarray(own)[None]
    places = jnp.zeros((1, len(own), 2))
    types = jnp.zeros((1, len(own)), jnp.int32)
    index = jnp.arange(len(own))[None]
    return Facts(types, places, line, ~line, line, jnp.ones_like(line), index)


def test_sampled_actions_are_possible(latent):
    """Only own units are commanded, at least one; only units that exist are targets."""
    sample = jax.jit(
        lambda latent, key: _network().policy.sample(latent, key, temperature=1.0)
    )
    score = jax.jit(lambda latent, action: _network().policy.score(latent, action))
    table = policy.argument_table(SETTINGS)
    for row in range(4):
        many = _repeated(latent, row, 200)
        action = jax.tree.map(np.asarray, sample(many, jax.random.key(row)))
        count = int(FRAMES["unit_count"][row])
        alliance = FRAMES["units"][row, :, COLUMN["alliance"]]
        for index, function in enumerate(action["function"]):
            takes = dict(zip(specs.ACTION_ARGUMENTS, table[function], strict=True))
            tags = action["unit_tags"][index]
            used = tags[tags < small_agents.UNITS]
            if takes["unit_tags"]:
                assert len(used)
                assert (alliance[used] == 1).all()
                assert (np.diff(used) > 0).all()
            else:
                assert (tags == (small_agents.UNITS if function else 0)).all()
            assert action["target_unit_tag"][index] < count
            assert action["world"][index] < CELLS
        scores = score(many, action)
        for name, impossible in scores.impossible.items():
            assert not np.asarray(impossible).any(), name
            assert np.isfinite(scores.log_prob[name]).all()


def test_rows_beyond_the_count_do_not_matter(latent):
    changed = FRAMES["units"].copy()
    for row, count in enumerate(FRAMES["unit_count"]):
        changed[row, count:] = 77
    other = jax.jit(lambda frames: _network().encode(frames))(
        {**FRAMES, "units": changed}
    )
    np.testing.assert_array_equal(other.vector, latent.vector)
    valid = np.asarray(latent.facts.valid)
    np.testing.assert_array_equal(
        np.asarray(other.units)[valid], np.asarray(latent.units)[valid]
    )


def test_the_rows_that_are_kept_are_own_ones_enemies_and_the_nearest():
    """By hand: two own units at (1, 1) and (3, 1), an enemy, and resources near and far."""
    units = np.zeros((1, 6, len(COLUMN)), np.int32)
    for row, (x, y, alliance) in enumerate(
        [(7, 7, 3), (1, 1, 1), (2, 2, 3), (7, 0, 4), (3, 1, 1), (0, 6, 3)]
    ):
        for name, value in (("x", x), ("y", y), ("alliance", alliance)):
            units[0, row, COLUMN[name]] = value
    frames = {"units": units, "unit_count": np.array([6], np.int32)}
    for limit, expected in (
        (2, [1, 4]),
        (3, [1, 3, 4]),
        (4, [1, 2, 3, 4]),
        (5, [1, 2, 3, 4, 5]),
        (9, [0, 1, 2, 3, 4, 5]),
    ):
        kept = unit_stream.nearest_rows(frames, SETTINGS, limit)
        np.testing.assert_array_equal(kept["unit_index"][0], expected)
        np.testing.assert_array_equal(kept["units"][0], units[0, expected])
        assert int(kept["unit_count"][0]) == len(expected)


def test_actions_name_rows_of_the_observation_even_if_few_are_kept():
    """With three rows kept, the same rows of the observation are scored and sampled."""
    config = dataclasses.replace(CONFIG, rows=3)

    @jax.jit
    def play(frames, key):
        network = parameters.merge(PARAMS, config, SETTINGS)
        latent = network.encode(frames)
        action = network.policy.sample(latent, key)
        return latent.facts.numbers, action, network.policy.score(latent, action)

    for seed in range(6):
        index, action, scores = jax.tree.map(
            np.asarray, play(FRAMES, jax.random.key(seed))
        )
        for row, kept in enumerate(index):
            tags = action["unit_tags"][row]
            used = tags[tags < small_agents.UNITS]
            if action["function"][row]:
                assert set(used) <= set(kept)
                own = FRAMES["units"][row, used, COLUMN["alliance"]] == 1
                assert own.all()
        for name, impossible in scores.impossible.items():
            assert not impossible.any(), name


@pytest.mark.parametrize("name", ["minimap", "previous_action"])
def test_the_papers_further_inputs_can_be_switched_on(name):
    key = {"minimap": "minimap_height_map", "previous_action": "prev_function"}[name]
    changed = {**FRAMES, key: FRAMES[key] + 1}
    differs = {}
    for is_on in (False, True):
        config = dataclasses.replace(CONFIG, **{name: is_on})
        params = parameters.init(0, config, SETTINGS)

        def vector(frames, config=config, params=params):
            return parameters.merge(params, config, SETTINGS).encode(frames).vector

        ours, theirs = jax.jit(vector)(FRAMES), jax.jit(vector)(changed)
        differs[is_on] = bool(np.abs(ours - theirs).max() > 1e-6)
    assert differs == {False: False, True: True}


def test_the_weight_of_a_selection_is_the_networks():
    """Function and delay count 40 and 9 times, unit_tags as the network's config says."""
    run = small_agents.run("bc", network=CONFIG).algorithm
    names = ("function", "delay", "unit_tags")
    ones = {name: jnp.full(2, -1.0) for name in names}
    scores = scoring.Scores(ones, {}, {}, {}, {}, jnp.ones(2))
    loss = bc.policy_loss(scores, jnp.asarray([1.0, 0.0]), run)
    np.testing.assert_allclose(loss, [40 + 9 + CONFIG.tag_weight, 0])


def test_one_batch_is_learned_by_heart():
    run = small_agents.run("bc", network=CONFIG, frames=10**6, learning_rate=0.01)
    ours = learner.Learner(run, 1)
    state = ours.init()
    batch = small_agents.batch(size=4, steps=4)
    batch["units"][:, :, 0, COLUMN["alliance"]] = 1
    losses = []
    for number in range(1, 121):
        state, metrics = ours.update(state, ours.put([batch]), number)
        losses.append(float(metrics["policy_loss"]))
    assert losses[-1] < 0.2 * losses[0]


def test_arrays_that_are_not_read_are_not_loaded(tmp_path):
    data = small_agents.write_dataset(tmp_path)
    run = small_agents.run("bc", network=CONFIG)
    with splits.batches(run, data.filter(split="train")) as iterator:
        arrays = next(iterator)
    assert "minimap_height_map" not in arrays
    assert "minimap_creep" in arrays
    batch = rollouts.prepare(arrays, SETTINGS)
    ours = learner.Learner(run, 1)
    _, metrics = ours.update(ours.init(), ours.put([batch]), 1)
    assert np.isfinite(float(metrics["loss"]))


def test_it_acts_as_every_network_does():
    """Through the actor: actions satisfy the spec, and a batch is its games one by one."""
    run = small_agents.run("bc", network=CONFIG)
    actor = acting.Actor(run, PARAMS, None, acting.Options(mmr=6000))
    memories = [actor.begin(seed) for seed in (5, 8)]
    seen = [small_agents.observation(game, 0) for game in (0, 3)]
    together = actor.act(seen, memories)
    for seed, one, action in zip((5, 8), seen, together, strict=True):
        player = acting.Agent(actor)
        player.reset(seed)
        alone = player.act(one)
        for name, spec in specs.action_specs(SETTINGS).items():
            np.testing.assert_array_equal(alone[name], action[name])
            assert action[name].shape == spec.shape
            assert (spec.minimum <= action[name]).all()
            assert (action[name] <= spec.maximum).all()


def test_runs_keep_their_kind_of_network_in_json():
    for network in (CONFIG, small_agents.NETWORK):
        run = small_agents.run("bc", network=network)
        again = runs.from_json(run.to_json())
        assert again == run
        assert type(again.algorithm.network) is type(network)
    assert isinstance(small_agents.NETWORK, NetworkConfig)


def test_sizes_must_be_sizes():
    with pytest.raises(errors.ConfigError, match="anchors"):
        CompactConfig(anchors=0)
    with pytest.raises(errors.ConfigError, match="areas 7"):
        parameters.init(0, dataclasses.replace(CONFIG, areas=7), SETTINGS)


def test_no_name_of_a_unit_type_is_known():
    """Nothing in the room names what a unit is: the data has to say so."""
    folder = Path(unit_stream.__file__).parent
    text = "".join(path.read_text() for path in folder.glob("*.py"))
    names = {name.split(".")[-1] for name in vocab.names("unit_types")}
    assert not [name for name in names - {"none"} if f'"{name}"' in text]
    assert "vocab" not in text

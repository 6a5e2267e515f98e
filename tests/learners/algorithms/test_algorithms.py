"""Invariants of the losses, and one batch overfitted by every agent."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from starmill.learners import agents, learner
from starmill.learners.algorithms import bc, contract, muzero, sarsa
from starmill.learners.networks import parameters
from starmill.schema import episode
from starmill.schema.episode import LAST
from tests.factories import small_agents
from tests.reference import offline_rl

_POLICY_GRADIENTS = ("oac", "e-oac", "ppo")


@functools.cache
def _learner(agent, **changes):
    return learner.Learner(
        small_agents.run(agent, frames=10**6, learning_rate=0.01, **changes), 1
    )


@functools.cache
def _gradient(agent):
    """Returns the loss and its gradient as one function, compiled once for each agent."""
    run = small_agents.run(agent)
    loss = agents.AGENTS[agent].algorithm.loss

    @jax.jit
    def value_and_gradient(params, carry, batch):
        def of(params):
            return loss(params, carry, batch, jax.random.key(0), run.algorithm)

        return jax.value_and_grad(of, has_aux=True)(params)

    return value_and_gradient


def _norm(tree):
    return float(sum(jnp.abs(leaf).sum() for leaf in jax.tree.leaves(tree)))


def _start(agent, seed=0):
    run = small_agents.run(agent)
    return agents.AGENTS[agent].algorithm.init(seed, run.algorithm, None)


def _batch(agent, **overrides):
    run = small_agents.run(agent).algorithm
    return small_agents.batch(size=run.batch_size, steps=run.rollout, **overrides)


@pytest.mark.parametrize("agent", _POLICY_GRADIENTS)
def test_ratios_are_one_at_the_start(agent):
    params, carry = _start(agent)
    (_, (_, metrics)), _ = _gradient(agent)(params, carry, _batch(agent))
    assert float(metrics["rho"]) == pytest.approx(1.0, abs=1e-6)


def test_oac_improves_function_and_delay_alone():
    params, carry = _start("oac")
    (_, (after, _)), gradient = _gradient("oac")(params, carry, _batch("oac"))
    heads = gradient["policy"]["heads"]
    assert _norm(heads["function"]) > 0
    assert _norm(heads["delay"]) > 0
    assert _norm(gradient["vector_in"]) > 0
    for name in ("queued", "repeat"):
        assert _norm(heads[name]) == 0
    for name in ("tag_key", "tag_query", "target_query", "world"):
        assert _norm(gradient["policy"][name]) == 0
    # The critic is fixed: neither its head nor the behaviour network moves.
    assert _norm(gradient["value_head"]) == 0
    for a, b in zip(
        jax.tree.leaves(after["behaviour"]), jax.tree.leaves(params), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_oac_raises_what_beat_the_critic():
    """A step along the gradient makes the winners' actions likelier."""
    params, carry = _start("oac")
    # A critic whose value is always 0.
    for leaf in ("kernel", "bias"):
        zero = jnp.zeros_like(carry["behaviour"]["value_head"]["second"][leaf])
        carry["behaviour"]["value_head"]["second"][leaf] = zero
    batch = _batch("oac", outcome=1)
    batch["reward"][:, -1] = 1.0
    batch["step_type"][:, -1] = episode.LAST
    (loss, _), gradient = _gradient("oac")(params, carry, batch)
    better = jax.tree.map(lambda p, g: p - 1e-3 * g, params, gradient)

    def log_prob(params):
        network = parameters.merge(params, small_agents.NETWORK, small_agents.SETTINGS)
        latent, _ = network.unroll(batch)
        action = {n: batch[f"action/{n}"].reshape(-1) for n in ("function", "delay")}
        return sum(network.policy.function_delay_log_probs(latent.vector, action))

    trained = np.zeros((4, 4), bool)
    trained[:, : small_agents.run("oac").algorithm.trained] = True
    compiled = jax.jit(log_prob)
    gain = np.asarray(compiled(better) - compiled(params)).reshape(4, 4)[trained]
    assert gain.mean() > 0
    assert float(loss) > 0  # minus advantage times a negative log-probability


@pytest.mark.slow
def test_eoac_carries_its_traces_and_takes_turns():
    run = small_agents.run("e-oac", accumulate=2).algorithm
    params, carry = agents.AGENTS["e-oac"].algorithm.init(0, run, None)
    assert carry["traces"].traces.shape == (2, run.n, run.batch_size)
    loss = agents.AGENTS["e-oac"].algorithm.loss
    step = jax.jit(lambda carry, batch: loss(params, carry, batch, None, run)[1][0])
    batch = _batch("e-oac")
    batch["step_type"][:] = episode.MID
    one = step(carry, batch)
    assert int(one["turn"]) == 1
    np.testing.assert_array_equal(one["traces"].factors[1], carry["traces"].factors[1])
    assert (np.asarray(one["traces"].factors[0]) > 0).all()
    two = step(one, batch)
    np.testing.assert_allclose(
        two["traces"].traces[1], one["traces"].traces[0], rtol=1e-6
    )
    # With all ratios 1 and gamma near 1, the next rollout's traces have grown.
    three = step(two, batch)
    assert (three["traces"].traces[0] > one["traces"].traces[0]).all()


def test_mzs_first_step_is_behaviour_cloning():
    """With one unrolled step the loss is BC's with a value, on the same parameters."""
    run = small_agents.run("mzs", unroll=1, rollout=1).algorithm
    cloning = bc.Config(
        network=run.network,
        settings=small_agents.SETTINGS,
        value_weight=run.value_weight,
        weight_penalty=0.0,
    )
    params = parameters.init(0, run.network, small_agents.SETTINGS)
    batch = small_agents.batch(seed=4, size=4, steps=1)
    carry = {"calls": jnp.zeros((), jnp.int32)}
    ours = jax.jit(lambda p: muzero.loss(p, carry, batch, None, run)[0])(params)
    theirs = jax.jit(lambda p: bc.loss(p, {}, batch, None, cloning)[0])(params)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_mzs_trains_its_latent_model_and_stops_at_the_end():
    params, carry = _start("mzs")
    batch = _batch("mzs")
    (whole, _), gradient = _gradient("mzs")(params, carry, batch)
    assert _norm(gradient["dynamics"]) > 0
    # What follows an episode's last step is not predicted.
    batch["step_type"][:, 1] = episode.LAST
    (cut, _), _ = _gradient("mzs")(params, carry, batch)
    batch["action/function"][:, 2:] = 0
    batch["action/delay"][:, 2:] = 1
    (same, _), _ = _gradient("mzs")(params, carry, batch)
    assert float(cut) != float(whole)
    np.testing.assert_allclose(cut, same, rtol=1e-6)


def test_mzs_bootstraps_where_the_episode_goes_on():
    run = dataclasses.replace(
        small_agents.run("mzs").algorithm, bootstrap=True, target_period=2, unroll=2
    )
    params, carry = muzero.init(0, run, None)
    batch = _batch("mzs", outcome=1)
    batch["step_type"][0, -1] = episode.LAST
    batch["step_type"][1:, -1] = episode.MID
    network = parameters.merge(carry["target"], run.network, small_agents.SETTINGS)
    alive = muzero.still_alive(jnp.asarray(batch["step_type"]))
    targets = jax.jit(lambda: muzero._value_targets(carry, batch, alive, run))()
    last = {name: value[:, -1] for name, value in batch.items()}
    value = jax.jit(lambda: network.value(network.encode(last).vector))()
    np.testing.assert_array_equal(targets[0], 1.0)
    np.testing.assert_allclose(targets[1:, 0], value[1:], rtol=1e-4)
    other = jax.tree.map(lambda leaf: leaf + 1, params)
    carry = muzero._next_carry(other, carry, run)
    np.testing.assert_array_equal(
        carry["target"]["unit_norm"]["scale"], params["unit_norm"]["scale"]
    )
    carry = muzero._next_carry(other, carry, run)
    np.testing.assert_array_equal(
        carry["target"]["unit_norm"]["scale"], other["unit_norm"]["scale"]
    )


def test_mzs_takes_values_of_another_critic():
    """The value's loss has their squared errors in place of those from the outcome."""
    run = small_agents.run("mzs").algorithm
    params, carry = muzero.init(0, run, None)
    batch = _batch("mzs", outcome=1)
    values = np.full(batch["step_type"].shape, 0.25, np.float32)
    with_values = {**batch, contract.CRITIC_VALUES: values}
    measure = jax.jit(lambda batch: muzero.loss(params, carry, batch, None, run)[1][1])
    losses = [
        float(measure(each)["value_loss"])
        for each in (
            with_values,
            {**batch, "outcome": values.astype(np.float32)},
            batch,
        )
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert losses[0] != pytest.approx(losses[2], rel=1e-2)


def test_mzs_targets_are_the_values_of_the_steps_ahead():
    """Each step by itself through the target network; the outcome where the episode ended."""
    run = dataclasses.replace(
        small_agents.run("mzs").algorithm, bootstrap=True, ahead=9
    )
    _, carry = muzero.init(0, run, None)
    batch, later = _batch("mzs", outcome=1), _batch("mzs", seed=5)
    later["valid"] = np.array(later["valid"])
    later["valid"][1, 2:] = False
    later["step_type"] = np.array(later["step_type"])
    later["step_type"][0, 1] = LAST
    alive = muzero.still_alive(jnp.asarray(batch["step_type"]))
    targets = jax.jit(
        lambda: muzero._value_targets(carry, {**batch, "ahead": later}, alive, run)
    )()
    network = parameters.merge(carry["target"], run.network, run.settings)
    value = jax.jit(lambda frame: network.value(network.encode(frame).vector))
    for row in range(2):
        for step in range(4):
            frame = {key: each[row : row + 1, step] for key, each in later.items()}
            ended = (
                not later["valid"][row, step] or later["step_type"][row, step] == LAST
            )
            expected = 1.0 if ended else float(value(frame)[0])
            np.testing.assert_allclose(targets[row, step], expected, rtol=1e-4)


def test_bc_ignores_last_steps_and_padding():
    params, carry = _start("bc")
    batch = _batch("bc")
    batch["step_type"][:, -1] = episode.LAST
    batch["valid"][0, -1] = False
    batch["outcome"][0, -1] = 0
    (before, _), _ = _gradient("bc")(params, carry, batch)
    batch["action/function"][:, -1] = 0
    batch["action/delay"][:, -1] = 99
    (after, _), _ = _gradient("bc")(params, carry, batch)
    np.testing.assert_allclose(after, before, rtol=1e-6)
    batch["outcome"][0, -1] = 1  # in padding
    (padded, _), _ = _gradient("bc")(params, carry, batch)
    np.testing.assert_allclose(padded, before, rtol=1e-6)


def test_bc_loss_is_the_weighted_sum_by_hand():
    run = small_agents.run("bc").algorithm
    params, carry = _start("bc")
    batch = _batch("bc")
    (loss, (_, metrics)), _ = _gradient("bc")(params, carry, batch)
    done = jax.jit(lambda p: contract.forward(p, batch, run)._replace(network=None))(
        params
    )
    weights = {
        "function": 40,
        "delay": 9,
        "queued": 1,
        "repeat": 0.1,
        "unit_tags": 320 / small_agents.SLOTS,
        "target_unit_tag": 30,
        "world": 11,
    }
    expected = 0.0
    trained = batch["step_type"].reshape(-1) != episode.LAST
    for name, weight in weights.items():
        log_prob = np.asarray(done.scores.log_prob[name], np.float64)
        expected -= weight * (log_prob * trained).mean()
    np.testing.assert_allclose(metrics["policy_loss"], expected, rtol=1e-5)
    expected += 10 * float(metrics["value_loss"])
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_rcbc_is_told_the_outcome():
    params, carry = _start("rcbc")
    batch = _batch("rcbc", outcome=1)
    (won, _), _ = _gradient("rcbc")(params, carry, batch)
    (told, _), _ = _gradient("rcbc")(
        params, carry, {**batch, "target_return": np.full((4, 4), 1)}
    )
    assert float(won) != float(told)


@pytest.mark.parametrize("agent", ["sarsa", "q-learning", "bcq"])
def test_q_is_learned_from_what_the_slow_version_bootstraps_from(agent):
    """The algorithm's error on a batch is the slow version's on its network's numbers."""
    config = small_agents.run(agent).algorithm
    algorithm = agents.AGENTS[agent].algorithm
    params, carry = _start(agent)
    # Another target network than the trained one, so that they are not mixed up.
    carry = {**carry, "target": jax.tree.map(lambda leaf: 1.3 * leaf, params)}
    batch = _batch(agent, outcome=1)
    batch["reward"][:, 2] = 1.0
    batch["step_type"][0, 2] = episode.LAST

    @jax.jit
    def run(params, carry, batch):
        forward = contract.forward(params, batch, config)
        logits = forward.network.policy.function_logits(forward.latent.vector)
        q = forward.network.action_values(forward.latent.vector)
        target = sarsa.run_target(carry["target"], batch, config).q
        metrics = algorithm.loss(params, carry, batch, None, config)[1][1]
        return metrics["q_loss"], q, target, logits

    error, *arrays = jax.device_get(run(params, carry, batch))
    q, target, logits = (
        x.reshape(*batch["step_type"].shape, -1).astype(np.float64) for x in arrays
    )
    rule = {
        "sarsa": offline_rl.sarsa_value,
        "q-learning": lambda q, target, logits, action: max(target),
        "bcq": functools.partial(offline_rl.bcq_value, threshold=0.3),
    }[agent]
    total = 0.0
    for row in range(len(q)):
        total += offline_rl.q_error(
            q[row],
            target[row],
            logits[row],
            batch["action/function"][row],
            batch["action/delay"][row],
            batch["reward"][row],
            batch["step_type"][row],
            config.gamma,
            rule,
        )
    assert error == pytest.approx(total / batch["step_type"].size, rel=1e-4)


@pytest.mark.parametrize(
    "agent",
    [
        pytest.param(agent, marks=[] if agent == "awr" else [pytest.mark.slow])
        for agent in ("awr", "bc", "bcq", "crr", "cwp", "q-learning", "rbve", "sarsa")
    ],
)
def test_the_penalty_is_half_the_sum_of_squares(agent):
    run = small_agents.run(agent).algorithm
    loss = agents.AGENTS[agent].algorithm.loss
    params, carry = _start(agent)
    batch = _batch(agent)

    @jax.jit
    def penalty(params):
        totals = [
            loss(params, carry, batch, None, dataclasses.replace(run, **changes))[0]
            for changes in ({"weight_penalty": 0.5}, {"weight_penalty": 0.0})
        ]
        return totals[0] - totals[1]

    squares = sum(
        (np.asarray(leaf, np.float64) ** 2).sum() for leaf in jax.tree.leaves(params)
    )
    # Half, so that its gradient is 0.5 times the parameters.
    np.testing.assert_allclose(penalty(params), 0.5 * 0.5 * squares, rtol=1e-3)


@pytest.mark.parametrize(
    "agent",
    [
        # Each agent compiles its own update, so the default run trains only the first.
        pytest.param(agent, marks=[] if agent == "bc" else [pytest.mark.slow])
        for agent in agents.AGENTS
    ],
)
def test_one_batch_is_overfitted(agent):
    """On one batch every loss falls far, and cloning losses almost to 0."""
    learner = _learner(agent)
    # All agents start from the same parameters, which are also the behaviour policy.
    state = learner.init(
        parameters.init(0, learner.run.algorithm.network, small_agents.SETTINGS)
    )
    batch = _batch(agent, outcome=1)
    if agent in _POLICY_GRADIENTS:
        batch["reward"][:, -1] = 1.0
        batch["step_type"][:, -1] = episode.LAST
    history = []
    for number in range(1, 201):
        state, metrics = learner.update(state, learner.put([batch]), number)
        history.append({name: float(value) for name, value in metrics.items()})
    first, last = history[0], history[-1]
    if agent == "ppo":
        # Only ratios near 1 count: the surrogate stops where they are clipped.
        assert last["clipped"] > first["clipped"] == 0
        assert last["rho"] > 1
    elif agent in _POLICY_GRADIENTS:
        # A policy gradient has no floor at 0. All actions are winners' and better than the
        # critic expected, so they must become nearly certain.
        assert last["loss"] < 0.05 * abs(first["loss"])
    else:
        assert last["cross_entropy/function"] < 0.05
        assert last["policy_loss"] < 0.05 * first["policy_loss"]

"""Acting: the protocol, determinism, batches, options and the search."""

import dataclasses

import numpy as np
import pytest

from starmill.learners import acting, rollouts
from starmill.learners.networks import parameters
from starmill.schema import errors, specs
from tests.factories import small_agents


def _actor(name="bc", options=None, **changes):
    run = small_agents.run(name, **changes)
    params = parameters.init(1, run.algorithm.network, small_agents.SETTINGS)
    behaviour = None
    if name in ("oac", "e-oac"):
        behaviour = parameters.init(2, run.algorithm.network, small_agents.SETTINGS)
    return acting.Actor(run, params, behaviour, options or acting.Options(mmr=6000))


@pytest.fixture(scope="module")
def actor():
    return _actor()


def _play(actor, seed, steps=4, game=0):
    player = acting.Agent(actor)
    player.reset(seed, "zerg")
    return [player.act(small_agents.observation(game, step)) for step in range(steps)]


def _same(ours, theirs):
    return all(
        np.array_equal(a[name], b[name])
        for a, b in zip(ours, theirs, strict=True)
        for name in a
    )


def test_actions_satisfy_the_spec(actor):
    for action in _play(actor, 0):
        assert list(action) == list(specs.action_specs(small_agents.SETTINGS))
        for name, spec in specs.action_specs(small_agents.SETTINGS).items():
            assert action[name].shape == spec.shape
            assert action[name].dtype == np.int32
            assert (spec.minimum <= action[name]).all()
            assert (action[name] <= spec.maximum).all()


def test_same_seed_and_observations_same_actions(actor):
    assert _same(_play(actor, 5), _play(actor, 5))
    assert not _same(_play(actor, 5), _play(actor, 6))


def test_the_likeliest_functions_are_those_of_the_policy(actor):
    player = acting.Agent(actor)
    counts = np.zeros(small_agents.FUNCTIONS)
    for seed in range(300):
        player.reset(seed, "zerg")
        counts[int(player.act(small_agents.observation(0))["function"])] += 1
    # The first step's policy does not depend on the seed.
    likely = player.likely
    assert len(likely) == 5
    result = [one.probability for one in likely]
    assert result == sorted(result, reverse=True)
    shares = counts[[one.function for one in likely]] / counts.sum()
    np.testing.assert_allclose(result, shares, atol=0.1)
    assert sum(result) == pytest.approx(shares.sum(), abs=0.1)


def test_a_search_says_which_functions_it_weighed():
    actor = _actor("mzs", acting.Options(mmr=6000, search=4, simulations=4))
    player = acting.Agent(actor)
    action = player.act(small_agents.observation())
    assert 1 <= len(player.likely) <= 4
    assert sum(one.probability for one in player.likely) == pytest.approx(1, abs=1e-4)
    assert int(action["function"]) in {one.function for one in player.likely}


def test_a_batch_is_its_games_one_by_one(actor):
    memories = [actor.begin(seed) for seed in (5, 8)]
    alone = [_play(actor, seed, game=game) for seed, game in ((5, 0), (8, 3))]
    for step in range(4):
        seen = [small_agents.observation(0, step), small_agents.observation(3, step)]
        actions = actor.act(seen, memories)
        for number in range(2):
            assert _same([actions[number]], [alone[number][step]])


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_move_is_the_same_bit_for_bit_whatever_else_is_played(lanes):
    """In any company and any lane: the action, and the expected outcome to its last bit."""
    actor = _actor("oac", acting.Options(mmr=6000, lanes=lanes))
    rng = np.random.default_rng(lanes)
    moves = {}
    for _ in range(6):
        games = rng.permutation(5)[: rng.integers(1, 6)].tolist()
        memories = [actor.begin(100 + game) for game in games]
        for step in range(3):
            seen = [small_agents.observation(game, step) for game in games]
            actions = actor.act(seen, memories)
            for game, action, memory in zip(games, actions, memories, strict=True):
                assert memory.value is not None
                move = (memory.value, *(value.tobytes() for value in action.values()))
                assert moves.setdefault((game, step), move) == move
    assert len(moves) == 15


def test_no_memory_changes_if_one_observation_is_refused(actor):
    memories = [actor.begin(seed) for seed in (5, 8)]
    whole, damaged = small_agents.observation(0), small_agents.observation(1)
    del damaged["player"]
    with pytest.raises(errors.SpecError):
        actor.act([whole, damaged], memories)
    assert [memory.step for memory in memories] == [0, 0]


def test_missing_observations_are_named(actor):
    seen = small_agents.observation()
    del seen["player"]
    with pytest.raises(errors.SpecError, match="player"):
        acting.Agent(actor).act(seen)


def test_the_previous_action_is_remembered(actor):
    memory = actor.begin(1)
    (action,) = actor.act([small_agents.observation()], [memory])
    assert memory.previous == {name: int(action[name]) for name in rollouts.PREVIOUS}
    assert memory.step == 1


def test_oac_takes_the_rest_from_its_behaviour():
    """Function and delay come from one network, and the others, given these, from the other."""
    options = acting.Options(mmr=6000, temperature=1e-4)
    ours = _actor("oac", options)
    (action,) = _play(ours, 0, steps=1)
    run = small_agents.run("oac")
    own = parameters.init(1, run.algorithm.network, small_agents.SETTINGS)
    other = parameters.init(2, run.algorithm.network, small_agents.SETTINGS)
    memory = ours.begin(0)
    frame = ours._prepare(small_agents.observation(), memory)
    frames = {name: np.asarray(value)[None] for name, value in frame.items()}
    pair = []
    for params in (own, other):
        network = parameters.merge(params, run.algorithm.network, small_agents.SETTINGS)
        pair.append((network, network.encode(frames)))
    (network, latent), (behaviour, rest) = pair
    function = network.policy.function_logits(latent.vector).argmax(-1)
    assert action["function"] == function[0]
    full = {name: np.asarray(value)[None] for name, value in action.items()}
    scores = behaviour.policy.score(rest, full)
    for name in ("queued", "repeat", "unit_tags", "target_unit_tag", "world"):
        # At this temperature the behaviour's likeliest choice is the one taken.
        if scores.present[name][0]:
            assert scores.correct[name][0] == 1, name


def test_mzs_searches_when_told_to():
    options = acting.Options(mmr=6000, search=4, simulations=4)
    result = _play(_actor("mzs", options), 0, steps=2)
    assert all(1 <= int(action["delay"]) <= 127 for action in result)
    with pytest.raises(errors.ConfigError, match="no latent model"):
        _actor("bc", options)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["lstm", "transformer"])
def test_memory_makes_actions_depend_on_the_past(memory):
    network = dataclasses.replace(small_agents.NETWORK, memory=memory)
    actor = _actor(network=network)
    memories = [actor.begin(0), actor.begin(0)]
    actor.act([small_agents.observation(0), small_agents.observation(4)], memories)
    for a, b in zip(
        memories[0].state["own"].values(),
        memories[1].state["own"].values(),
        strict=True,
    ):
        assert a.shape == b.shape
    hidden = "hidden" if memory == "lstm" else "past"
    states = [np.asarray(one.state["own"][hidden]) for one in memories]
    assert not np.allclose(*states)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heat": "1"}, "unknown"),
        ({"temperature": "warm"}, "expected a number"),
        ({"temperature": "0"}, "must be positive"),
        ({"temperature_world": "-1"}, "temperature_world: must be positive"),
        ({"temperature_camera": "1"}, "unknown"),
        ({"search": "-1"}, "expected 0 or more"),
        ({"lanes": "0"}, "lanes: expected 1 or more"),
    ],
)
def test_options_are_checked(tmp_path, options, message):
    with pytest.raises(errors.ConfigError, match=message):
        acting.load(tmp_path, **options)


def test_a_folder_without_checkpoints_is_named(tmp_path):
    with pytest.raises(errors.ConfigError, match="starmill train"):
        acting.load(tmp_path)

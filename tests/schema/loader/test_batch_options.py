import numpy as np
import pytest

from starmill.schema import errors
from starmill.schema.loader import batch_options
from starmill.schema.loader.batch_options import BatchOptions, BatchPlan
from starmill.schema.loader.samplers import SamplingPlan

STORED = ("raw_units", "player", "action/delay")


def options(**overrides):
    return BatchOptions(
        **{
            "batch_size": 4,
            "rollout": 8,
            "seed": 3,
            "sampler": "sequential",
            **overrides,
        }
    )


@pytest.mark.parametrize(
    ("overrides", "match"),
    [
        ({"sampler": "uniform"}, "there are episode, step, consecutive, sequential$"),
        ({"sampler": "steps"}, "did you mean 'step'"),
        ({"sampler": "foo", "seed": None}, "^sampler 'foo': there are [a-z, ]*$"),
        ({"form": "dens"}, "form 'dens': there are dense, compact; .* 'dense'"),
        ({"batch_size": 0}, "batch_size: must be at least 1, found 0"),
        ({"rollout": -1}, "rollout: must be at least 1"),
        ({"stride": 0}, "stride: must be at least 1"),
        ({"stride": 9}, "stride 9: would skip steps"),
        ({"sampler": "step", "cross_episodes": True}, "cross_episodes: not with"),
        ({"sampler": "step", "stride": 2}, "stride: not with"),
        ({"seed": -1}, "seed: expected"),
        ({"seed": 1 << 63}, "seed: expected"),
        ({"seed": None, "sampler": "episode"}, "'episode' is random and needs one"),
        ({"seed": None, "shuffle_unit_tags": True}, "shuffle_unit_tags is random"),
        ({"keys": "player"}, "keys: expected a list of names"),
        ({"batch_size": 0, "form": "x"}, "form 'x'.*; batch_size: must"),
    ],
)
def test_options_that_make_no_sense_are_refused(overrides, match):
    with pytest.raises(errors.ConfigError, match=match):
        options(**overrides)


def test_keys_are_sorted_and_unique():
    assert options(keys=["player", "mmr", "player"]).keys == ("mmr", "player")
    assert options(keys=iter(["b", "a"])).keys == ("a", "b")
    assert options().keys is None


def test_the_plan_of_a_host():
    plan = batch_options.plan_for_host(
        options(stride=4, seed=None), STORED, host=2, hosts=3
    )
    assert plan == BatchPlan(
        sampling=SamplingPlan(
            sampler="sequential",
            lanes=12,
            rollout=8,
            stride=4,
            cross_episodes=False,
            seed=0,
        ),
        form="dense",
        keys=("action/delay", "player", "raw_units"),
        first_lane=8,
        lanes=4,
        shuffle_unit_tags=False,
    )
    with pytest.raises(errors.ConfigError, match="key 'playr': .* mean 'player'"):
        batch_options.plan_for_host(options(keys=["playr"]), STORED)


# The numbers are in checkpoints: one that changes keeps earlier runs from being resumed.
FINGERPRINTS = [
    (
        BatchOptions(batch_size=2, rollout=4, seed=7, keys=["player"]),
        762890109,
    ),
    (
        BatchOptions(
            batch_size=32,
            rollout=65,
            seed=0,
            sampler="consecutive",
            form="compact",
            keys=["player", "action/delay"],
            stride=64,
            cross_episodes=True,
            shuffle_unit_tags=True,
        ),
        3362058388,
    ),
    (
        BatchOptions(
            batch_size=1, rollout=1, seed=2**63 - 1, sampler="sequential", keys=[]
        ),
        974684717,
    ),
]


@pytest.mark.parametrize(("options", "number"), FINGERPRINTS)
def test_fingerprints_never_change(options, number):
    assert batch_options.plan_for_host(options, STORED).fingerprint() == number


def test_fingerprints_do_not_depend_on_hosts_or_number_types():
    one = BatchOptions(batch_size=2, rollout=4, seed=7, keys=["player"])
    assert (
        batch_options.plan_for_host(
            BatchOptions(batch_size=1, rollout=4, seed=7, keys=["player"]),
            STORED,
            host=1,
            hosts=2,
        ).fingerprint()
        == 762890109
    )
    numpy_numbers = BatchOptions(
        batch_size=np.int64(2), rollout=np.int32(4), seed=np.uint64(7), keys=one.keys
    )
    assert batch_options.plan_for_host(numpy_numbers, STORED).fingerprint() == 762890109


def test_states_of_another_iteration_are_refused():
    plan = batch_options.plan_for_host(options(), STORED)
    state = {"position": 5, "options": plan.fingerprint(), "dataset": 11}
    assert batch_options.check_state(state, plan, 11) == 5
    with pytest.raises(errors.ConfigError, match="other dataset"):
        batch_options.check_state(state, plan, 12)
    other = batch_options.plan_for_host(options(seed=4), STORED)
    with pytest.raises(errors.ConfigError, match="other options"):
        batch_options.check_state(state, other, 11)
    with pytest.raises(errors.ConfigError, match="expected position, options"):
        batch_options.check_state({"position": 5}, plan, 11)

"""What users may rely on: the names of `starmill.__all__`, and how they are called."""

import inspect
import subprocess
import sys
from typing import Any

import pytest

import starmill

NAMES = [
    "BatchOptions",
    "Converter",
    "ConverterSettings",
    "Dataset",
    "Environment",
    "Episode",
    "Selection",
    "UNPLUGGED",
    "__version__",
    "errors",
    "load_agent",
    "open_dataset",
]
FILTERS = (
    "split=None, race=None, opponent_race=None, map_name=None, game_version=None, "
    "outcome=None, mmr_above=None, mmr_rule='own', min_steps=None, max_steps=None, "
    "where=None"
)
SIGNATURES = {
    "open_dataset": f"(reference, *, registry_file=None, {FILTERS})",
    "Dataset.filter": f"(self, *, {FILTERS})",
    "Dataset.__getitem__": "(self, item)",
    "Dataset.__iter__": "(self)",
    "Dataset.__len__": "(self)",
    "Dataset.batches": "(self, options, *, workers=0, host=0, hosts=1, state=None)",
    "Dataset.windows": "(self, *, rollout, stride=None, keys=None)",
    "Episode.__getitem__": "(self, item)",
    "Episode.__len__": "(self)",
    "BatchOptions": (
        "(*, batch_size, rollout, seed=None, sampler='episode', form='dense', keys=None, "
        "stride=None, cross_episodes=False, shuffle_unit_tags=False, "
        "parts=1, ahead=0)"
    ),
    "Selection": (
        "(*, name='custom', engine=None, min_version=None, max_version=None, "
        "ladder=False, two_humans=False, min_mmr=None, mmr_scope='own', "
        "mmr_source='any', maps=(), races=(), outcomes=(), min_loops=0, "
        "include=frozenset(), exclude=frozenset(), splits=<factory>)"
    ),
    "ConverterSettings": (
        "(*, raw_settings=None, num_action_types=0, num_unit_types=0, "
        "num_upgrade_types=0, max_num_upgrades=0, camera_width_world_units=0, mmr=0, "
        "minimap=(0, 0), minimap_features=(), add_opponent_features=False, "
        "supervised=False, crop_to_playable_area=False)"
    ),
    "load_agent": "(source, *, temperature=None, mmr=None, search=0, simulations=32)",
    "Environment": (
        "(*, game='skirmish', opponent='very_hard', map_name=None, "
        "races=('terran', 'zerg'), settings=UNPLUGGED, max_minutes=60.0)"
    ),
    "Environment.reset": "(self, *, seed=None)",
    "Environment.step": "(self, action)",
    "Converter": "(settings, game_info, replay_info=None, *, reuse=False)",
}


def lookup(path):
    value = starmill
    for name in path.split("."):
        value = getattr(value, name)
    return value


def call_of(value):
    """The signature without types, which may become more precise."""
    signature = inspect.signature(value)
    plain = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
    ]
    bare = signature.replace(
        parameters=plain, return_annotation=inspect.Signature.empty
    )
    return str(bare).replace(repr(starmill.UNPLUGGED), "UNPLUGGED")


def test_the_names_are_these():
    assert sorted(starmill.__all__) == NAMES
    assert set(NAMES) <= set(dir(starmill))
    for name in NAMES:
        assert getattr(starmill, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'open_datasets'"):
        _ = starmill.open_datasets


@pytest.mark.parametrize("path", sorted(SIGNATURES))
def test_signatures_are_kept(path):
    assert call_of(lookup(path)) == SIGNATURES[path]


def test_every_parameter_has_a_type():
    for path in SIGNATURES:
        for parameter in inspect.signature(lookup(path)).parameters.values():
            if parameter.name != "self":
                assert parameter.annotation is not inspect.Parameter.empty, path
                assert parameter.annotation is not Any, path


def test_star_import_gives_the_same_objects():
    names = {}
    exec("from starmill import *", names)
    for name in NAMES:
        assert names[name] is getattr(starmill, name)
    assert starmill.open_dataset is starmill.open_dataset


def test_importing_starmill_imports_nothing_heavy():
    code = (
        "import sys, starmill; "
        "print([name for name in ('numpy', 'pyarrow', 'jax', 'apache_beam', "
        "'s2clientprotocol', 'starmill.schema') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"

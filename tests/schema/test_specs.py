import json

import numpy as np
import pytest

from starmill.schema import specs
from starmill.schema.settings import UNPLUGGED, ConverterSettings
from tests.conftest import SHARED

CASES = sorted((SHARED / "golden/converter/inputs").glob("*.npz"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_specs_equal_the_references(path):
    settings = ConverterSettings.from_json(
        json.loads(np.load(path)["settings_json"].tobytes())
    )
    expected = json.loads(
        np.load(path.parent.parent / "expected" / path.name)["__spec_json"].tobytes()
    )

    def shown(report):
        return {key: spec.to_json() for key, spec in report.items()}

    assert shown(specs.observation_specs(settings)) == expected["observation"]
    assert shown(specs.action_specs(settings)) == expected["action"]


def test_fingerprint_is_stable():
    assert specs.fingerprint(UNPLUGGED) == (
        "708a64f9959b1dc26349d857c105064dc8a14d624b3748769b5f8e1b756a6d97"
    )


def test_settings_survive_json():
    text = json.dumps(UNPLUGGED.to_json())
    assert ConverterSettings.from_json(json.loads(text)) == UNPLUGGED

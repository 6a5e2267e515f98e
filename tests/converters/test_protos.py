"""The game's message classes and pysc2 on this Python."""

import importlib
import random
import subprocess
import sys

from starmill.converters import protos

PALETTE = [
    [0.0, 0.0, 0.0],
    [0.0, 102.00000000000009, 255.0],
    [204.0, 255.0, 0.0],
    [203.99999999999994, 0.0, 255.0],
    [0.0, 255.0, 101.99999999999997],
]


def test_messages_survive_a_round_trip():
    message = protos.sc2api_pb2.Request(id=7)
    message.step.count = 3
    again = protos.sc2api_pb2.Request.FromString(message.SerializeToString())
    assert again == message
    assert protos.sc2api_pb2.ResponseObservation.DESCRIPTOR.full_name == (
        "SC2APIProtocol.ResponseObservation"
    )


def test_pysc2_is_importable_and_its_palette_is_what_it_was():
    colors = importlib.import_module("pysc2.lib.colors")
    importlib.import_module("pysc2.lib.features")
    # Recorded with Python 3.10, whose random.shuffle still takes a function.
    assert colors.shuffled_hue(5).tolist() == PALETTE


def test_the_standard_library_is_left_alone():
    values = list(range(5))
    random.Random(3).shuffle(values)
    assert sorted(values) == list(range(5))
    protos.install()
    finders = [f for f in sys.meta_path if type(f).__name__ == "_Finder"]
    assert len(finders) == 1


def test_a_missing_package_is_named():
    code = (
        "import sys; sys.modules['s2clientprotocol'] = None\n"
        "import starmill\n"
        "try:\n    starmill.Converter\n"
        "except ModuleNotFoundError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert "pip install 'starmill[generate]'" in done.stdout

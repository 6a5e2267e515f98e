"""The builds that s2protocol describes."""

import pytest

from starmill.engines.replays import protocols
from starmill.schema import errors
from tests.engines.replays.conftest import s2protocol_module


def test_every_build_compiles() -> None:
    assert len(protocols.builds()) > 80
    for build in protocols.builds():
        protocol = protocols.protocol(build)
        assert len(protocol.program.types) == len(protocol.types)


def test_a_build_that_nobody_describes_is_the_replays_fault() -> None:
    for build in (76811, 80188, 0, -1, 10**9):
        with pytest.raises(errors.ReplayError) as caught:
            protocols.protocol(build)
        assert caught.value.reason == "no_protocol"


def test_events_have_short_names_and_types() -> None:
    protocol = protocols.protocol(74741)
    module = s2protocol_module(74741)
    assert protocol.types == module.typeinfos
    assert len(protocol.kinds) == len(module.game_event_types) > 40
    for number, (type_number, name) in module.game_event_types.items():
        assert name == f"NNet.Game.S{protocol.kinds[number]}Event"
        assert protocol.event_type_numbers[number] == type_number
    unknown = set(range(len(protocol.event_type_numbers))) - set(protocol.kinds)
    assert all(protocol.event_type_numbers[number] == -1 for number in unknown)

"""Limits stop work that costs too much."""

import time

import pytest

from starmill.engines.replays.limits import DEFAULT_LIMITS, Limits, Meter
from starmill.engines.replays.tagged import TaggedReader
from starmill.schema import errors
from tests import replay_factory

# An array of numbers: 5001 values, the array among them.
FIVE_THOUSAND_ZEROS = b"\x00" + replay_factory.varint(5000) + b"\x09\x00" * 5000


def _reason(meter: Meter) -> str:
    with pytest.raises(errors.ReplayError) as caught:
        TaggedReader(FIVE_THOUSAND_ZEROS, meter).value()
    return str(caught.value.reason)


def test_too_many_values() -> None:
    assert _reason(Meter(5000, float("inf"))) == "too_large"
    values = TaggedReader(FIVE_THOUSAND_ZEROS, Meter(5001, float("inf"))).value()
    assert values == [0] * 5000


def test_too_much_time() -> None:
    assert _reason(Meter(8192, 0.0)) == "too_slow"


def test_a_meter_starts_its_own_clock() -> None:
    before = time.thread_time()
    meter = Limits(values=7, seconds=2.5).meter()
    assert meter.left == 7
    assert before + 2.5 <= meter.deadline <= time.thread_time() + 2.5
    assert DEFAULT_LIMITS.meter() is not DEFAULT_LIMITS.meter()


@pytest.mark.parametrize("name", ["file_bytes", "values", "seconds"])
def test_limits_must_be_positive(name: str) -> None:
    with pytest.raises(errors.ConfigError, match=name):
        Limits(**{name: 0})

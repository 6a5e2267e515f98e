"""Charts: round ticks, places that follow from the numbers, and two lines in one chart."""

import re

import pytest

from starmill.pages import charts


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (3950, 7010, [4000, 5000, 6000, 7000]),
        (-1.2, 0.3, [-1, -0.5, 0]),
        (0, 7, [0, 2, 4, 6]),
        (0, 60_000, [0, 20_000, 40_000, 60_000]),
        (5, 5, [5]),
    ],
)
def test_ticks_are_round_and_few(low, high, expected):
    assert charts.ticks(low, high) == expected


def test_tick_texts_are_short():
    values = (0, 0.25, 4200, 20_000, 3_000_000, 2.5e9, -15_000)
    texts = ["0", "0.25", "4200", "20k", "3M", "2.5G", "-15k"]
    assert [charts.tick_text(value) for value in values] == texts


def test_bars_of_a_histogram_are_as_high_as_their_counts():
    svg = charts.histogram([0, 1, 2, 3], [5, 10, 0], unit="min", label="<lengths>")
    heights = [float(x) for x in re.findall(r'class="bar"[^>]* height="([\d.]+)"', svg)]
    assert heights == [76.0, 152.0, 0.0]  # 190 high, less 28 below and 10 above
    assert "1 to 2 min: 10" in svg
    assert "<lengths>" not in svg


def test_two_lines_share_their_axes():
    svg = charts.lines(
        [("<a>", [(0, 0), (10, 50)]), ("b", [(5, -50)])], unit="min", label="x"
    )
    assert svg.count("<polyline") == 2
    assert svg.count('class="line second"') == 1
    first, second = re.findall(r'points="([^"]*)"', svg)
    # From -50 at the bottom, 162, to 50 at the top, 10.
    assert first.split()[0] == "46.0,86.0"
    assert first.split()[1] == "372.0,10.0"
    assert second == "209.0,162.0"
    assert "<a>" not in svg


def test_long_lines_have_no_dots_and_nothing_is_no_data():
    points = [(float(x), 1.0) for x in range(500)]
    assert "<circle" not in charts.line(points, unit="", label="x")
    assert charts.line([], unit="", label="x") == "<p>no data</p>"


def test_an_axis_far_from_zero_does_not_begin_there():
    svg = charts.line([(4000, 1), (6000, 2)], unit="MMR", label="x")
    assert ">4000<" in svg
    assert ">0<" in svg  # of the other axis
    assert re.findall(r'points="([\d.]+),', svg) == ["46.0"]

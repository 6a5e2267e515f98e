"""JSON that is nested, cut or no JSON is a ValueError and nothing else."""

import json

import pytest

from starmill.schema.archives import json_text


def test_values_are_those_of_the_standard_library():
    text = '{"a": [1, 2.5, null, {"b": "c"}], "d": true}'
    assert json_text.parse(text) == {"a": [1, 2.5, None, {"b": "c"}], "d": True}
    assert json_text.parse(b"3") == 3


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 900 + "1" + "}" * 900,
        "[" * 66 + "]" * 66,
        b"\xff\xfe[",
        "{",
        "",
        "9" * 10_000,
    ],
)
def test_what_is_no_plain_json_is_a_value_error(text):
    with pytest.raises(ValueError, match=r"."):
        json_text.parse(text)


def test_the_deepest_that_is_read():
    text = "[" * 65 + "]" * 65
    assert json_text.parse(text) == json.loads(text)

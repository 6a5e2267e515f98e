"""The shipped tables: dense ids, raw ids and names agree with each other."""

import numpy as np
import pytest

from starmill.schema import errors, vocab

SIZES = {"unit_types": 243, "buffs": 47, "upgrades": 91}


@pytest.mark.parametrize(("name", "size"), SIZES.items())
def test_dense_ids_run_without_gaps_and_lead_back(name, size):
    dense_to_raw, raw_to_dense = vocab.dense_to_raw(name), vocab.raw_to_dense(name)
    assert len(dense_to_raw) == size + 1
    assert dense_to_raw[0] == 0
    assert (dense_to_raw >= 0).all()
    result = raw_to_dense[dense_to_raw]
    if name == "unit_types":
        # The reference names raw type 1958 for id 238, and yet translates it to 239.
        assert result[238] == 239
        result = np.where(np.arange(size + 1) == 238, 238, result)
    np.testing.assert_array_equal(result, np.arange(size + 1))


def test_aliases_share_a_dense_id_with_another_type():
    aliases = vocab.table("unit_types")["aliases"]
    assert len(aliases) == 17
    lookup, back = vocab.raw_to_dense("unit_types"), vocab.dense_to_raw("unit_types")
    assert all(lookup[int(raw)] > 0 for raw in aliases)
    assert all(back[lookup[int(raw)]] != int(raw) for raw in aliases)


def test_the_table_s_own_inverse_is_ours():
    want = vocab.table("unit_types")["uint8_to_raw"]
    assert vocab.dense_to_raw("unit_types").tolist() == want


@pytest.mark.parametrize("name", [*SIZES, "functions", "effects"])
def test_names_lead_both_ways(name):
    names, ids = vocab.names(name), vocab.ids(name)
    for text in names:
        assert names[ids[text]] == text
    assert len(ids) == len(set(names))


def test_known_names():
    assert (
        vocab.names("unit_types")[vocab.raw_to_dense("unit_types")[48]]
        == "Terran.Marine"
    )
    assert vocab.function_named("Attack_pt").id == 2
    assert vocab.functions()[vocab.CAMERA_FUNCTION].kind == "camera_move"
    with pytest.raises(errors.ConfigError, match="Nonsense"):
        vocab.function_named("Nonsense")


def test_functions_are_listed_by_id():
    assert [function.id for function in vocab.functions()] == list(range(564))


def test_decoding_stays_within_its_kind():
    for kind in vocab.KINDS:
        for function in vocab.decode_functions(kind).values():
            assert vocab.functions()[function].kind == kind


def test_lookups_cannot_be_changed_by_accident():
    with pytest.raises(ValueError, match="read-only"):
        vocab.raw_to_dense("buffs")[0] = 1

"""The records: complete, in step with the code that they name and with the documents."""

import re

from starmill.engines.conformance import assumptions, ledger, live, requests, trial
from tests.conftest import ROOT

NAMES = re.compile(r'"((?:[a-z]+)\.(?:[a-z_]+))"')


def test_every_record_is_filled_in():
    for name, record in assumptions.assumptions().items():
        assert name == record.id
        assert re.fullmatch(r"[a-z]+\.[a-z_]+", name), name
        for text in (record.what, record.check, record.otherwise):
            assert text.endswith("."), (name, text)
        assert record.topic
        assert record.where, name


def test_every_place_that_a_record_names_exists():
    for record in assumptions.assumptions().values():
        for path in record.where:
            assert (ROOT / path).is_file(), (record.id, path)


def test_every_assumption_is_checked_by_the_code_and_no_other_is():
    folder = ROOT / "engines/conformance"
    named = {
        name
        for path in folder.glob("*.py")
        for name in NAMES.findall(path.read_text("utf-8"))
    }
    topics = {name.split(".")[0] for name in assumptions.assumptions()}
    named = {name for name in named if name.split(".")[0] in topics}
    assert named == set(assumptions.assumptions())


def test_stages_name_known_assumptions():
    known = set(assumptions.assumptions())
    for names in (requests.ASSUMPTIONS, live.ASSUMPTIONS, trial.PLAYBACK_ASSUMPTIONS):
        assert set(names) <= known


def test_differences_are_those_that_the_document_shows():
    text = (ROOT / "docs/skirmish.md").read_text("utf-8")
    section = re.search(
        r"It differs from the real game in these ways:\n(.*?)\n\n", text, re.S
    )
    assert section is not None
    shown = [
        " ".join(item.split()) for item in section[1].removeprefix("- ").split("\n- ")
    ]
    records = [difference.text for difference in assumptions.differences()]
    assert shown == records, "edit docs/skirmish.md and differences.json alike"


def test_differences_name_known_assumptions():
    known = set(assumptions.assumptions())
    for difference in assumptions.differences():
        assert set(difference.assumptions) <= known


def test_what_the_estimate_assumes_is_what_the_document_says():
    text = (ROOT / "docs/scale.md").read_text("utf-8")
    records = assumptions.measurements()
    loops, milliseconds = (
        records[name].assumed
        for name in ("loops_per_second", "observation_milliseconds")
    )
    assert f"{loops:,} loops a second / {milliseconds} ms" in text
    assert f"{records['build_core_hours'].assumed:,} core hours" in text


def test_the_documents_rates_give_the_documents_core_hours():
    rates = {
        "loops_per_second": 1000.0,
        "observation_milliseconds": 5.0,
        "convert_milliseconds": 2.0,
    }
    # docs/scale.md: 30 seconds for a side, 2.8 million sides.
    assert abs(trial.build_core_hours(rates) - 30 * 2.8e6 / 3600) < 1


def test_a_ledger_keeps_the_first_contradiction_and_counts_all():
    book = ledger.Ledger()
    book.expect("step.exact", True, "")
    book.expect("step.exact", False, "first", ledger.first_difference(b"abc", b"abd"))
    book.expect("step.exact", False, "second")
    book.skip(["live.maps"], "no game")
    entries = {entry.id: entry for entry in book.entries()}
    assert list(entries) == list(assumptions.assumptions())
    entry = entries["step.exact"]
    assert (entry.state, entry.detail) == (ledger.BROKEN, "first")
    assert (entry.confirmed, entry.contradicted) == (1, 2)
    assert entry.evidence is not None
    assert (entry.evidence.offset, entry.evidence.expected) == (2, b"abc".hex())
    assert entries["live.maps"].detail == "no game"
    assert entries["live.maps"].state == ledger.UNCHECKED
    assert book.contradictions() == 2


def test_the_first_difference_of_a_message_that_ends_early_is_its_end():
    evidence = ledger.first_difference(b"a" * 40, b"a" * 30)
    assert evidence.offset == 30
    assert (evidence.expected, evidence.found) == ("61" * 26, "61" * 16)

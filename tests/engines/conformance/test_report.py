"""The report's two files: complete, safe in a browser, and without anything personal."""

import dataclasses
import json
import re

import pytest

from starmill.engines.conformance import assumptions, ledger, records, report

HOSTILE = "<script>alert(1)</script>"
SECRETS = ("/home/jane/StarCraftII", "janes-laptop", "SerralTheSecond")


def _entries(**states):
    book = ledger.Ledger()
    for name in assumptions.assumptions():
        if name != "arrays.reference":
            book.expect(name, True, "")
    for name, detail in states.items():
        name = name.replace("__", ".")
        evidence = ledger.first_difference(b"abcd", b"abXd", "observation.score")
        book.expect(name, False, detail, evidence)
    return tuple(book.entries())


def _report(**states):
    return records.Report(
        engine="sc2 4.9.2.74741",
        versions="4.9.2 (build 74741)",
        entries=_entries(**states),
        measured={"loops_per_second": 512.5},
        playbacks=(
            records.Playback(
                name="3f9a3f9a3f9a3f9a",
                game_version="4.9.2.74741",
                map_name=HOSTILE,
                loops=900,
                steps=77,
                note="",
            ),
        ),
        secrets=SECRETS,
    )


def test_json_has_every_assumption_and_the_versions():
    content = json.loads(report.json_text(_report()))
    assert content["conformant"] is True
    listed = [entry["id"] for entry in content["assumptions"]]
    assert listed == list(assumptions.assumptions())
    assert content["counts"][ledger.BROKEN] == 0
    assert content["counts"][ledger.UNCHECKED] == 1
    assert content["engine"] == "sc2 4.9.2.74741"
    assert set(content["libraries"]) >= {"numpy", "protobuf", "s2clientprotocol"}


def test_a_contradiction_is_shown_with_its_bytes_and_consequence():
    result = _report(step__exact="expected loop 5, found 6")
    assert not report.is_conformant(result)
    page = report.page(result)
    record = assumptions.assumptions()["step.exact"]
    for text in ("expected loop 5, found 6", record.otherwise, b"abXd".hex()):
        assert text in page
    assert "observation.score" in page


def test_every_assumption_is_on_the_page():
    page = report.page(_report())
    for name, record in assumptions.assumptions().items():
        assert f">{name}<" in page
        assert record.what.split("'")[0].split('"')[0][:20] in page


@pytest.mark.parametrize(
    "detail",
    [
        "cannot read /home/jane/StarCraftII/Versions/x: no such file",
        "on janes-laptop",
        "SerralTheSecond left",
        "found /var/lib/somewhere/else.txt",
        r"found C:\Users\jane\StarCraft II",
        f"name {HOSTILE}",
    ],
)
def test_nothing_personal_and_no_script_gets_into_the_files(detail):
    result = _report(step__exact=detail)
    for text in (report.json_text(result), report.page(result)):
        for secret in (*SECRETS, "/var/lib", "jane"):
            assert secret not in text, secret
    assert HOSTILE not in report.page(result)


def test_relative_paths_and_addresses_of_the_protocol_stay():
    content = report.to_json(_report(step__exact="see engines/pool.py and /sc2api"))
    entry = next(e for e in content["assumptions"] if e["id"] == "step.exact")
    assert entry["detail"] == "see engines/pool.py and /sc2api"


def test_the_page_runs_no_script_but_its_own():
    page = report.page(_report())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "unsafe-inline" not in policy[1].split("style-src")[0]


def test_differences_are_shown_for_the_embedded_game_alone():
    first = assumptions.differences()[0].text
    embedded = dataclasses.replace(_report(), engine="skirmish 4.9.2.74741")
    assert first in report.page(embedded)
    assert first not in report.page(_report())


def test_measurements_stand_beside_what_is_assumed():
    rows = report.measurement_rows({"loops_per_second": 512.5, "quit_seconds": 0.25})
    assert rows == [
        ("from `quit` to the end of the process", "0.25 s", ""),
        ("game loops stepped in a second", "512 loops/s", "1,000 loops/s"),
    ]

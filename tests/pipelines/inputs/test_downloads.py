"""Packs from a local server that behaves like Blizzard's, and misbehaves."""

import io
import json
import logging
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from starmill import cli
from starmill.pipelines.inputs import blizzard, downloads
from starmill.schema import errors
from tests.pipelines.inputs.pack_server import (
    CLIENT_ID,
    CLIENT_SECRET,
    PackServer,
)

CREDENTIALS = blizzard.Credentials(client_id=CLIENT_ID, client_secret=CLIENT_SECRET)


def _pack(seed: int, size: int = 200_000) -> bytes:
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as pack:
        data = np.random.default_rng(seed).bytes(size)
        pack.writestr(zipfile.ZipInfo(f"{seed:064x}.SC2Replay"), data)
    return body.getvalue()


@pytest.fixture
def server() -> Iterator[PackServer]:
    packs = {
        "4.9.2": {f"pack{n}.zip": _pack(n) for n in range(5)},
        "4.9.1": {"only.zip": _pack(9)},
    }
    with PackServer(packs) as running:
        yield running


def _service(server: PackServer, **changes: object) -> blizzard.Service:
    values = {"attempts": 4, "wait_seconds": 0.0, "timeout_seconds": 5.0}
    return blizzard.Service(
        token_url=f"{server.url}/oauth/token",
        api_url=server.url,
        **{**values, **changes},
    )


def _urls(server: PackServer, version: str = "4.9.2") -> list[str]:
    return blizzard.Client(CREDENTIALS, _service(server)).pack_urls(version)


def test_packs_are_listed_over_all_pages(server: PackServer) -> None:
    expected = [f"{server.url}/packs/4.9.2/pack{n}.zip" for n in range(5)]
    assert _urls(server) == expected
    assert server.asked("search/archive") == 3
    assert len(_urls(server, "4.9.1")) == 1
    assert _urls(server, "1.0.0") == []


def test_packs_arrive_whole_and_are_recorded(
    server: PackServer, tmp_path: Path
) -> None:
    done, failed = downloads.fetch_all(_urls(server), tmp_path, _service(server))
    assert failed == []
    record = json.loads((tmp_path / "packs.json").read_text())
    for pack in done:
        data = server.packs["4.9.2"][pack.name]
        assert (tmp_path / pack.name).read_bytes() == data
        assert record[pack.name]["size_bytes"] == len(data)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*record, "packs.json"])


def test_what_is_there_is_not_fetched_again(server: PackServer, tmp_path: Path) -> None:
    urls = _urls(server)
    downloads.fetch_all(urls, tmp_path, _service(server))
    before = server.asked("/packs/")
    done, _ = downloads.fetch_all(urls, tmp_path, _service(server))
    assert server.asked("/packs/") == before
    assert all(pack.reused for pack in done)
    # A pack that changed on disk, though not in size, is.
    target = tmp_path / "pack3.zip"
    target.write_bytes(b"x" * target.stat().st_size)
    done, _ = downloads.fetch_all(urls, tmp_path, _service(server))
    assert [pack.name for pack in done if not pack.reused] == ["pack3.zip"]
    assert target.read_bytes() == server.packs["4.9.2"]["pack3.zip"]


def test_a_broken_transfer_goes_on_where_it_stopped(
    server: PackServer, tmp_path: Path
) -> None:
    server.faults["pack"] = ["drop", "drop", "500"]
    url = _urls(server, "4.9.1")[0]
    done, failed = downloads.fetch_all([url], tmp_path, _service(server))
    assert failed == []
    assert (tmp_path / "only.zip").read_bytes() == server.packs["4.9.1"]["only.zip"]
    ranges = [
        headers.get("Range") for _, path, headers in server.requests if "only" in path
    ]
    ranges = [text for text in ranges if text]
    assert len(ranges) == 3
    assert len(set(ranges[:2])) == 2  # each began where the last one ended


def test_a_second_run_goes_on_too(server: PackServer, tmp_path: Path) -> None:
    server.faults["pack"] = ["drop"]
    url = _urls(server, "4.9.1")[0]
    done, failed = downloads.fetch_all([url], tmp_path, _service(server, attempts=1))
    assert done == [] or failed == []  # it may have gone on by itself: bytes had come
    done, failed = downloads.fetch_all([url], tmp_path, _service(server))
    assert failed == []
    assert sum("Range" in headers for _, _, headers in server.requests) == 1


def test_a_file_that_changes_in_between_starts_anew(
    server: PackServer, tmp_path: Path
) -> None:
    url = _urls(server, "4.9.1")[0]
    old = server.packs["4.9.1"]["only.zip"]
    (tmp_path / "only.zip.part").write_bytes(old[:1000])
    note = {"size_bytes": len(old), "etag": '"old"', "md5": None}
    (tmp_path / "only.zip.part.json").write_text(json.dumps(note))
    new = _pack(77)
    server.packs["4.9.1"]["only.zip"] = new
    _, failed = downloads.fetch_all([url], tmp_path, _service(server))
    assert failed == []
    assert (tmp_path / "only.zip").read_bytes() == new


@pytest.mark.parametrize("note", [None, "", "{}", "[]", "null"])
def test_a_part_without_a_note_starts_anew(
    server: PackServer, tmp_path: Path, note: str | None
) -> None:
    (tmp_path / "only.zip.part").write_bytes(b"who knows")
    if note is not None:
        (tmp_path / "only.zip.part.json").write_text(note)
    _, failed = downloads.fetch_all(_urls(server, "4.9.1"), tmp_path, _service(server))
    assert failed == []
    assert (tmp_path / "only.zip").read_bytes() == server.packs["4.9.1"]["only.zip"]


def test_a_bad_line_that_still_delivers_is_worth_more_attempts(
    server: PackServer, tmp_path: Path
) -> None:
    # Half of what is missing arrives each time: ten transfers with four attempts.
    server.faults["pack"] = ["drop"] * 10
    _, failed = downloads.fetch_all(_urls(server, "4.9.1"), tmp_path, _service(server))
    assert failed == []
    assert (tmp_path / "only.zip").read_bytes() == server.packs["4.9.1"]["only.zip"]
    assert server.asked("/packs/") == 11


def test_a_refusal_is_final_even_after_some_bytes(
    server: PackServer, tmp_path: Path
) -> None:
    server.faults["pack"] = ["drop", "404"]
    _, failed = downloads.fetch_all(_urls(server, "4.9.1"), tmp_path, _service(server))
    assert "404" in failed[0].detail
    assert server.asked("/packs/") == 2


def test_a_server_without_ranges(server: PackServer, tmp_path: Path) -> None:
    server.ranges = False
    server.faults["pack"] = ["drop"]
    _, failed = downloads.fetch_all(_urls(server, "4.9.1"), tmp_path, _service(server))
    assert failed == []
    assert (tmp_path / "only.zip").read_bytes() == server.packs["4.9.1"]["only.zip"]


def test_a_wrong_hash_is_refused_and_cleaned_up(
    server: PackServer, tmp_path: Path
) -> None:
    server.faults["pack"] = ["garble"]
    _, failed = downloads.fetch_all(_urls(server, "4.9.1"), tmp_path, _service(server))
    assert "expected md5" in failed[0].detail
    assert list(tmp_path.iterdir()) == []


def test_bytes_that_are_no_pack_are_refused(server: PackServer, tmp_path: Path) -> None:
    server.md5_etags = False
    server.packs["4.9.1"]["only.zip"] = b"not a zip file" * 100
    _, failed = downloads.fetch_all(_urls(server, "4.9.1"), tmp_path, _service(server))
    assert "zip pack" in failed[0].detail
    assert list(tmp_path.iterdir()) == []


def test_one_bad_pack_does_not_stop_the_others(
    server: PackServer, tmp_path: Path
) -> None:
    server.faults["pack"] = ["404"]
    done, failed = downloads.fetch_all(_urls(server), tmp_path, _service(server))
    assert (len(done), len(failed)) == (4, 1)
    assert "404" in failed[0].detail


def test_retries_are_bounded(server: PackServer, tmp_path: Path) -> None:
    server.faults["pack"] = ["500"] * 100
    _, failed = downloads.fetch_all(_urls(server, "4.9.1"), tmp_path, _service(server))
    assert "4 times" in failed[0].detail
    assert len(server.faults["pack"]) == 96


def test_the_api_is_retried_too(server: PackServer) -> None:
    server.faults["api"] = ["500", "429", "garbage"]
    server.faults["token"] = ["503"]
    assert len(_urls(server)) == 5


def test_a_server_that_hangs_is_given_up(server: PackServer) -> None:
    server.faults["api"] = ["hang"]
    client = blizzard.Client(CREDENTIALS, _service(server, timeout_seconds=0.2))
    assert len(client.pack_urls("4.9.2")) == 5


def test_an_expired_token_is_renewed_once(server: PackServer) -> None:
    client = blizzard.Client(CREDENTIALS, _service(server))
    client.pack_urls("4.9.1")
    server.tokens = {"another"}
    assert len(client.pack_urls("4.9.1")) == 1
    assert server.asked("/oauth/token") == 2
    server.faults["api"] = ["401", "401"]
    with pytest.raises(errors.DownloadError, match="401"):
        client.pack_urls("4.9.1")


def test_the_token_goes_to_the_api_alone(server: PackServer) -> None:
    server.foreign_href = "http://127.0.0.1:9"
    with pytest.raises(errors.DownloadError, match="nowhere else"):
        _urls(server)
    server.foreign_href = ""
    server.faults["api"] = ["302"]
    with pytest.raises(errors.DownloadError, match="302"):
        _urls(server)
    _urls(server)
    for _, path, headers in server.requests:
        assert ("Authorization" in headers) == (not path.startswith("/packs/"))


def test_wrong_credentials(server: PackServer) -> None:
    wrong = blizzard.Credentials(client_id=CLIENT_ID, client_secret="no")  # noqa: S106
    with pytest.raises(errors.DownloadError, match="401"):
        blizzard.Client(wrong, _service(server)).pack_urls("4.9.2")


def test_strange_names_never_become_paths() -> None:
    for path in ("../../evil.zip", "%2e%2e%2fevil.zip", "a/b", "", "x.exe", ".zip"):
        url = f"http://host/packs/{path}"
        if path == "../../evil.zip":
            assert downloads.pack_name(url) == "evil.zip"  # only the last part counts
        elif path == "%2e%2e%2fevil.zip":
            assert downloads.pack_name(url) == "evil.zip"
        else:
            with pytest.raises(errors.DownloadError):
                downloads.pack_name(url)


def test_service_checks_its_fields() -> None:
    for changes in (
        {"api_url": "file:///etc"},
        {"attempts": 0},
        {"timeout_seconds": 0},
    ):
        with pytest.raises(errors.ConfigError):
            blizzard.Service(**changes)


# The command.


def _arguments(server: PackServer, *more: str) -> list[str]:
    return [
        "download", "--api-url", server.url, "--token-url", f"{server.url}/oauth/token",
        "--wait-seconds", "0", "--attempts", "3", *more,
    ]  # fmt: skip


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLIZZARD_CLIENT_ID", CLIENT_ID)
    monkeypatch.setenv("BLIZZARD_CLIENT_SECRET", CLIENT_SECRET)


@pytest.mark.usefixtures("environment")
def test_command(
    server: PackServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    more = ["--version", "4.9.1", "--version", "4.9.2"]
    out = str(tmp_path / "packs")
    assert cli.main(_arguments(server, *more, "--list")) == 0
    assert len(capsys.readouterr().out.splitlines()) == 6
    assert cli.main(_arguments(server, *more, "--out", out)) == 2
    assert "--accept-license" in capsys.readouterr().err
    server.faults["pack"] = ["404", "500", "drop"]
    server.faults["api"] = ["500"]
    assert cli.main(_arguments(server, *more, "--out", out, "--accept-license")) == 1
    said = capsys.readouterr()
    assert "404" in said.out
    assert "5 of 6 packs" in said.out
    assert cli.main(_arguments(server, *more, "--out", out, "--accept-license")) == 0
    said_again = capsys.readouterr()
    assert "6 of 6 packs (5 were there)" in said_again.out
    everything = "".join([*said, *said_again, caplog.text])
    for secret in (CLIENT_SECRET, "token-0", "token-1", "Bearer", "Basic"):
        assert secret not in everything


@pytest.mark.usefixtures("environment")
def test_command_with_nothing_to_do(
    server: PackServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(_arguments(server, "--version", "1.2.3", "--list")) == 2
    assert "the server has none" in capsys.readouterr().err
    server.faults["token"] = ["400"]
    assert cli.main(_arguments(server, "--version", "4.9.2", "--list")) == 2
    assert cli.main(_arguments(server, "--version", "4.9.2")) == 2


def test_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: PackServer,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.delenv("BLIZZARD_CLIENT_ID", raising=False)
    monkeypatch.delenv("BLIZZARD_CLIENT_SECRET", raising=False)
    arguments = _arguments(server, "--version", "4.9.2", "--list")
    assert cli.main(arguments) == 2
    assert "no credentials" in capsys.readouterr().err
    path = tmp_path / "credentials.json"
    arguments += ["--credentials", str(path)]
    assert cli.main(arguments) == 2  # not there
    path.write_text(f'{{"client_id": "{CLIENT_ID}", "client_secret": "{CLIENT_SECRET}"')
    path.chmod(0o600)
    assert cli.main(arguments) == 2  # not JSON
    path.write_text(json.dumps({"client_id": CLIENT_ID}))
    assert cli.main(arguments) == 2  # no secret
    path.write_text(json.dumps([]))
    assert cli.main(arguments) == 2
    path.write_text(
        json.dumps({"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET})
    )
    path.chmod(0o644)
    assert cli.main(arguments) == 2
    said = capsys.readouterr()
    assert "chmod 600" in said.err
    assert CLIENT_SECRET not in said.err + said.out
    path.chmod(0o600)
    assert cli.main(arguments) == 0
    assert CLIENT_SECRET not in repr(CREDENTIALS)
    assert os.environ.get("BLIZZARD_CLIENT_SECRET") is None

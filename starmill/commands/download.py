"""`starmill download`: downloads replay packs from Blizzard's API."""

import argparse
import os
import threading
from pathlib import Path

from starmill import pack_options, progress
from starmill.pipelines.inputs import blizzard, downloads
from starmill.schema import errors
from starmill.schema.archives import json_text
from starmill.schema.card import BLIZZARD_LICENSE

EXAMPLES = """\
  export BLIZZARD_CLIENT_ID=... BLIZZARD_CLIENT_SECRET=...
  starmill download --version 4.9.2 --out packs/ --accept-license
  starmill download --version 4.9.1 --version 4.9.2 --list
"""
_ID, _SECRET = "BLIZZARD_CLIENT_ID", "BLIZZARD_CLIENT_SECRET"  # noqa: S105 - names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options. None is a secret, because other users can see a command line."""
    parser.add_argument(
        "--version",
        action="append",
        required=True,
        metavar="4.9.2",
        help="game version whose replays to download; may be given several times",
    )
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="folder for the packs"
    )
    parser.add_argument(
        "--list", action="store_true", help="print the packs' addresses, then stop"
    )
    parser.add_argument(
        "--credentials",
        type=Path,
        metavar="FILE.json",
        help='{"client_id": ..., "client_secret": ...}, readable by you alone '
        f"(default: {_ID} and {_SECRET} of the environment)",
    )
    pack_options.add_license(parser)
    defaults = blizzard.Service()
    parser.add_argument(
        "--api-url", default=defaults.api_url, help="default: %(default)s"
    )
    parser.add_argument(
        "--token-url", default=defaults.token_url, help="default: %(default)s"
    )
    parser.add_argument(
        "--attempts",
        type=int,
        default=defaults.attempts,
        help="how often a request is tried (default: %(default)s)",
    )
    parser.add_argument(
        "--wait-seconds",
        type=float,
        default=defaults.wait_seconds,
        help="before the second attempt, then doubled (default: %(default)s)",
    )
    parser.add_argument(
        "--timeout-seconds",
        type=float,
        default=defaults.timeout_seconds,
        help="longest time without a byte (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Lists or downloads the packs; exits 1 if any could not be downloaded."""
    if not args.list and args.out is None:
        raise errors.ConfigError("pass --out FOLDER, or --list to see the packs")
    if not args.list and not args.accept_license:
        raise errors.ConfigError(
            f"the packs come under the license at {BLIZZARD_LICENSE}; pass "
            "--accept-license if you accept it"
        )
    service = blizzard.Service(
        token_url=args.token_url,
        api_url=args.api_url.rstrip("/"),
        attempts=args.attempts,
        wait_seconds=args.wait_seconds,
        timeout_seconds=args.timeout_seconds,
    )
    client = blizzard.Client(read_credentials(args.credentials), service)
    urls = []
    for version in args.version:
        try:
            version_urls = client.pack_urls(version)
        except errors.DownloadError as error:
            raise errors.ConfigError(f"packs of {version}: {error}") from error
        if not version_urls:
            raise errors.ConfigError(f"packs of {version}: the server has none")
        urls += [url for url in version_urls if url not in urls]
    if args.list:
        print("\n".join(urls))
        return 0
    return _download(urls, args.out, service)


def _download(urls: list[str], folder: Path, service: blizzard.Service) -> int:
    finished = 0
    lock = threading.Lock()

    def count(_: downloads.Pack | downloads.Failure) -> None:
        nonlocal finished
        with lock:
            finished += 1

    with progress.Progress("download", len(urls), "packs", lambda: finished):
        done, failed = downloads.fetch_all(urls, folder, service, count)
    for failure in failed:
        print(failure.detail)
    size = sum(pack.size_bytes for pack in done)
    reused = sum(pack.reused for pack in done)
    print(
        f"{folder}: {len(done)} of {len(urls)} packs ({reused} were there), "
        f"{size / 1e9:,.2f} GB, {len(failed)} failed"
    )
    return 1 if failed else 0


def read_credentials(path: Path | None) -> blizzard.Credentials:
    """Returns the credentials from a file or the environment. Errors never show the secret."""
    if path is None:
        values: dict[str, object] = {
            "client_id": os.environ.get(_ID),
            "client_secret": os.environ.get(_SECRET),
        }
        where = f"{_ID} and {_SECRET} of the environment, or pass --credentials FILE"
    else:
        values, where = _file_values(path), f"client_id and client_secret in {path}"
    if not all(isinstance(value, str) and value for value in values.values()):
        raise errors.ConfigError(f"no credentials: expected {where}")
    return blizzard.Credentials(
        client_id=str(values["client_id"]), client_secret=str(values["client_secret"])
    )


def _file_values(path: Path) -> dict[str, object]:
    try:
        if path.stat().st_mode & 0o077:
            raise errors.ConfigError(
                f"{path}: others can read it; run: chmod 600 {path}"
            )
        data = json_text.parse(path.read_text("utf-8"))
    except OSError as error:
        raise errors.ConfigError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        # Not the error's own message: it would quote the file.
        raise errors.ConfigError(f"{path}: expected JSON") from error
    if not isinstance(data, dict):
        raise errors.ConfigError(f"{path}: expected a JSON object")
    return {key: data.get(key) for key in ("client_id", "client_secret")}

"""The page that every HTML report is made from.

In: a title, the HTML of the main part, and optionally data and a script. Out: one HTML text
that needs no other file. Must not know what the reports show.

A content security policy lets a browser run only the scripts that the page was made with, and
fetch nothing. Text from replays (names of maps and players) therefore cannot run as a script,
even if a report forgets to escape it.
"""

import base64
import hashlib
import html
import json
import string
from collections.abc import Mapping
from importlib import resources
from typing import Any


def page(
    *,
    title: str,
    subtitle: str,
    main: str,
    footer: str,
    style: str = "",
    script: str = "",
    data: Mapping[str, Any] | None = None,
) -> str:
    """Returns a page's HTML.

    Args:
        title: plain text.
        subtitle: plain text below the title.
        main: HTML; the caller escapes what it contains.
        footer: plain text.
        style: CSS that follows the style sheet of all reports.
        script: JavaScript that runs once the page has loaded. The document dispatches a
            "themechange" event when the reader switches between light and dark.
        data: values for the script, by the id of the element that holds their JSON.
    """
    scripts = [_asset("theme.js"), *([script] if script else [])]
    elements = [
        f'<script id="{html.escape(name)}" type="application/json">'
        f"{script_json(value)}</script>"
        for name, value in (data or {}).items()
    ]
    elements += [f"<script>{text}</script>" for text in scripts]
    return string.Template(_asset("page.html")).substitute(
        policy=_policy(scripts),
        title=html.escape(title),
        subtitle=html.escape(subtitle),
        style=_asset("style.css") + style,
        main=main,
        footer=html.escape(footer),
        scripts="\n".join(elements),
    )


def vendored(name: str) -> str:
    """Returns a file of a library that ships with starmill, such as the charts' (uPlot)."""
    folder = resources.files("starmill.pages").joinpath("vendored")
    return folder.joinpath(name).read_text("utf-8")


def script_json(value: Any) -> str:
    """Returns JSON that is safe inside a script element, where "<" could end the element."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return text.replace("<", "\\u003c")


def _policy(scripts: list[str]) -> str:
    """Returns a content security policy that allows these inline scripts and no others."""
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in scripts
    ]
    sources = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {sources}; style-src 'unsafe-inline'; "
        "base-uri 'none'; form-action 'none'"
    )


def _asset(name: str) -> str:
    return resources.files("starmill.pages").joinpath(name).read_text("utf-8")

"""A run's report as JSON and as an HTML page, fit to be attached to a public bug report.

In: a `Report`. Out: texts. They name versions, maps and what was found out; folders, files,
the machine and players are replaced, wherever a message may have named them.
"""

import dataclasses
import html
import json
import platform
import re
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from starmill.engines.conformance import assumptions
from starmill.engines.conformance.ledger import BROKEN, HELD, Entry
from starmill.engines.conformance.records import Report
from starmill.pages import document
from starmill.version import __version__

FORMAT = 1
_HIDDEN = "(hidden)"
# Two folders at least: "/sc2api" is none, "engines/pool.py" does not begin with a slash.
_PATH = re.compile(r"(?<![\w./])(?:[A-Za-z]:)?[/\\][\w.@+-]+[/\\][^\s'\",;:()]*")
_LIBRARIES = ("numpy", "protobuf", "s2clientprotocol", "s2protocol", "pysc2")
_STYLE = """
td.broken { color: var(--enemy); font-weight: 650; } td.held { color: var(--own); }
td, th { text-align: left; vertical-align: top; padding: 5px 10px 5px 0;
  border-bottom: 1px solid var(--edge); }
.scrolled { overflow-x: auto; }
@media (max-width: 520px) {
  .assumptions tr { display: grid; grid-template-columns: 1fr auto; border-bottom: 1px solid var(--edge); }
  .assumptions td { border: 0; } .assumptions td:last-child { grid-column: 1 / -1; padding-top: 0; }
  .assumptions th { display: none; }
}
"""


def is_conformant(report: Report) -> bool:
    """Returns whether no assumption was contradicted."""
    return all(entry.state != BROKEN for entry in report.entries)


def to_json(report: Report) -> dict[str, Any]:
    """Returns the report as JSON values, without anything personal."""
    content = {
        "format": FORMAT,
        "conformant": is_conformant(report),
        "starmill": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "libraries": {name: metadata.version(name) for name in _LIBRARIES},
        "engine": report.engine,
        "installed": report.versions,
        "counts": counts(report.entries),
        "assumptions": [
            {
                "what": assumptions.assumptions()[entry.id].what,
                **dataclasses.asdict(entry),
            }
            for entry in report.entries
        ],
        "measured": report.measured,
        "replays": [dataclasses.asdict(playback) for playback in report.playbacks],
    }
    hidden: dict[str, Any] = _without_secrets(content, report.secrets)
    return hidden


def counts(entries: Sequence[Entry]) -> dict[str, int]:
    """Returns how many assumptions are in each state."""
    out = {HELD: 0, BROKEN: 0}
    for entry in entries:
        out[entry.state] = out.get(entry.state, 0) + 1
    return out


def json_text(report: Report) -> str:
    """Returns the report as a JSON file's text."""
    return json.dumps(to_json(report), indent=1, sort_keys=True) + "\n"


def page(report: Report) -> str:
    """Returns the report as an HTML page that needs no other file."""
    content = to_json(report)
    figures = "".join(
        f'<div class="figure"><b>{number}</b><span>{html.escape(state)}</span></div>'
        for state, number in content["counts"].items()
    )
    sections = [
        f'<section class="figures">{figures}</section>',
        *(_topic(topic, content) for topic in _topics()),
        _measurements(content),
        _replays(content),
    ]
    if content["engine"].startswith("skirmish"):
        sections.append(_differences())
    about = (
        f"{content['engine']} · starmill {content['starmill']} · Python "
        f"{content['python']} · {content['system']}"
    )
    return document.page(
        title="Conformance",
        subtitle=about,
        main="\n".join(sections),
        footer="Made by starmill conformance. Installed: " + content["installed"],
        style=_STYLE,
    )


def _topics() -> list[str]:
    return list(dict.fromkeys(a.topic for a in assumptions.assumptions().values()))


def _topic(topic: str, content: dict[str, Any]) -> str:
    rows = []
    for entry in content["assumptions"]:
        assumption = assumptions.assumptions()[entry["id"]]
        if assumption.topic == topic:
            rows.append(_row(assumption, entry))
    return (
        f'<h2>{html.escape(topic)}</h2><table class="assumptions"><tr><th>assumption</th>'
        f"<th>state</th><th>what it says, how it is checked, what was found</th></tr>"
        f"{''.join(rows)}</table>"
    )


def _row(assumption: assumptions.Assumption, entry: dict[str, Any]) -> str:
    lines = [html.escape(assumption.what)]
    lines.append(f'<span class="note">{html.escape(assumption.check)}</span>')
    if entry["detail"]:
        lines.append(html.escape(entry["detail"]))
    if entry["state"] == BROKEN:
        lines.append(f"Consequence: {html.escape(assumption.otherwise)}")
        where = ", ".join(
            f"<code>{html.escape(path)}</code>" for path in assumption.where
        )
        lines.append(f"See {where}. Contradicted {entry['contradicted']:,} times.")
    if entry["evidence"]:
        evidence = entry["evidence"]
        lines.append(
            f"First difference at byte {evidence['offset']:,} of "
            f"{html.escape(evidence['place'] or 'the message')}:<br>"
            f"expected <code>{evidence['expected']}</code><br>"
            f"found <code>{evidence['found']}</code>"
        )
    kind = entry["state"] if entry["state"] in (HELD, BROKEN) else "note"
    return (
        f'<tr><td class="mono">{html.escape(entry["id"])}</td>'
        f'<td class="{kind}">{html.escape(entry["state"])}</td>'
        f"<td>{'<br>'.join(lines)}</td></tr>"
    )


def _measurements(content: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td>"
        f"<td>{html.escape(assumed)}</td></tr>"
        for name, value, assumed in measurement_rows(content["measured"])
    )
    return (
        '<h2>Measured</h2><div class="scrolled"><table><tr><th></th><th>here</th>'
        f"<th>assumed in docs/scale.md</th></tr>{rows}</table></div>"
    )


def measurement_rows(measured: dict[str, float]) -> list[tuple[str, str, str]]:
    """Returns (what, value, what docs/scale.md assumes) for each number that was measured."""
    rows = []
    for measurement in assumptions.measurements().values():
        if measurement.id not in measured:
            continue
        value, assumed = measured[measurement.id], measurement.assumed
        rows.append(
            (
                measurement.what,
                _number(value, measurement.unit),
                "" if assumed is None else _number(assumed, measurement.unit),
            )
        )
    return rows


def _number(value: float, unit: str) -> str:
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{text} {unit}".strip()


def _replays(content: dict[str, Any]) -> str:
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td>{html.escape(str(replay[key]))}</td>"
            for key in ("name", "game_version", "map_name", "loops", "steps", "note")
        )
        + "</tr>"
        for replay in content["replays"]
    )
    return (
        '<h2>Replays</h2><div class="scrolled"><table><tr><th>sha256</th><th>version</th>'
        "<th>map</th><th>loops</th><th>steps of both players</th><th></th></tr>"
        f"{rows}</table></div>"
    )


def _differences() -> str:
    items = "".join(
        f"<li>{html.escape(difference.text)}</li>"
        for difference in assumptions.differences()
    )
    return (
        f"<h2>Known differences between Skirmish and StarCraft II</h2><ul>{items}</ul>"
    )


def _without_secrets(value: Any, secrets: Sequence[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without_secrets(entry, secrets) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_secrets(entry, secrets) for entry in value]
    if not isinstance(value, str):
        return value
    for secret in secrets:
        value = value.replace(secret, _HIDDEN)
    return _PATH.sub(_HIDDEN, value)

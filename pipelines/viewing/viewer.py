"""The viewer as a part of a page, and the page of watched games.

In: the payloads of games. Out: HTML that needs no other file. The report of a dataset has the same
viewer below its charts.
"""

import dataclasses
import html
from collections.abc import Sequence
from importlib import resources
from typing import Any

from starmill.pages import document
from starmill.schema import specs, vocab
from starmill.schema.settings import ConverterSettings, RawSettings

_SCRIPTS = ("unpacking.js", "curves.js", "viewer.js")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Game:
    """A game that a page shows.

    Attributes:
        game_id: names the game in the page's address.
        title: for the list of games; empty for one made of the first side's facts.
        sides: payloads of `packing`, one or two.
    """

    game_id: str
    title: str
    sides: tuple[dict[str, Any], ...]

    def to_json(self) -> dict[str, Any]:
        """Returns what the script reads."""
        return {"id": self.game_id, "title": self.title, "sides": list(self.sides)}


def render(
    games: Sequence[Game],
    settings: ConverterSettings,
    *,
    title: str,
    subtitle: str,
    note: str = "",
) -> str:
    """Returns the HTML of a page that shows games; all texts are plain."""
    note = note or (
        "Drag the slider, use the arrow keys, or click a curve. Point at a unit to see its raw "
        "values. The address in the browser's bar always names the moment shown."
    )
    return document.page(
        title=title,
        subtitle=subtitle,
        main=f'<p class="note">{html.escape(note)}</p>{fragment()}',
        footer="Made by starmill.",
        style=style(),
        script=script(),
        data=data(games, settings),
    )


def fragment() -> str:
    """Returns the viewer's HTML."""
    return _asset("viewer.html")


def style() -> str:
    """Returns the viewer's style sheet."""
    return document.vendored("uPlot.min.css") + _asset("viewer.css")


def script() -> str:
    """Returns the viewer's script; the chart library comes first."""
    parts = [
        document.vendored("uPlot.iife.min.js"),
        *(_asset(name) for name in _SCRIPTS),
    ]
    return "\n".join(parts)


def data(games: Sequence[Game], settings: ConverterSettings) -> dict[str, Any]:
    """Returns the data that the script reads, by element."""
    return {"names": _names(settings), "data": [game.to_json() for game in games]}


def _asset(name: str) -> str:
    folder = resources.files("starmill.pipelines.viewing").joinpath("assets")
    return folder.joinpath(name).read_text("utf-8")


def _names(settings: ConverterSettings) -> dict[str, Any]:
    """Returns the names that the viewer shows instead of numbers."""
    raw = settings.raw_settings or RawSettings()
    units = vocab.table("unit_types")
    buffs = vocab.table("buffs")
    return {
        "columns": specs.unit_columns(settings),
        "player": specs.PLAYER_COLUMNS,
        "resolution": raw.resolution[0],
        "max_units": raw.max_unit_count,
        "num_unit_types": settings.num_unit_types,
        "functions": [
            {"name": function.name, "args": function.args}
            for function in vocab.functions()
        ],
        "unit_types": _dense_names(units),
        "buffs": _dense_names(buffs),
        "effects": vocab.table("effects")["effects"],
    }


def _dense_names(table: dict[str, Any]) -> dict[str, str]:
    """Returns the name of each dense id, without the race: "Marine"."""
    out: dict[str, str] = {"0": "none", "254": "unseen enemy"}
    for raw, dense in table["raw_to_uint8"].items():
        name = table["raw_names"].get(raw)
        if name:
            out.setdefault(str(dense), name.split(".")[-1])
    return out

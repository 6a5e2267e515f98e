"""The list of a dataset's replays, each with a link to its page, for `starmill watch --serve`.

In: an open dataset. Out: HTML. Where a dataset has very many replays, the list shows the first.
"""

import html
from typing import Any

from starmill.pages import document
from starmill.schema.game_constants import LOOPS_PER_MINUTE
from starmill.schema.loader.dataset import Dataset

_SHOWN = 2000
_HEADINGS = ("replay", "players", "MMR", "map", "minutes", "split", "sides")
_COLUMNS = ("race", "opponent_race", "mmr", "opponent_mmr", "map_name", "game_loops", "split")  # fmt: skip


def replay_ids(dataset: Dataset) -> list[str]:
    """Returns the ids of the dataset's replays, in the order of its table."""
    return list(dict.fromkeys(dataset.table.column("replay_id").to_pylist()))


def render(dataset: Dataset) -> str:
    """Returns the page; links lead to /watch/REPLAY.html."""
    by_replay: dict[str, list[dict[str, Any]]] = {}
    names = [name for name in _COLUMNS if name in dataset.table.column_names]
    for row in dataset.table.select(["replay_id", *names]).to_pylist():
        by_replay.setdefault(row["replay_id"], []).append(row)
    shown = list(by_replay.items())[:_SHOWN]
    head = "".join(f"<th>{name}</th>" for name in _HEADINGS)
    body = "".join(_line(replay_id, rows) for replay_id, rows in shown)
    note = f"{len(shown):,} of {len(by_replay):,} replays. Each page is made when it is opened."
    return document.page(
        title=f"{dataset.manifest.name} {dataset.manifest.version}",
        subtitle=dataset.reference,
        main=f'<p class="note">{note}</p><div class="card wide"><table class="plain" '
        f'id="replays"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>',
        footer="Made by starmill.",
    )


def _line(replay_id: str, rows: list[dict[str, Any]]) -> str:
    first = rows[0]
    ratings = [str(first[key] or "-") for key in ("mmr", "opponent_mmr")]
    cells = (
        f"{first['race']} v {first['opponent_race']}",
        " v ".join(ratings),
        str(first["map_name"]),
        f"{first['game_loops'] / LOOPS_PER_MINUTE:.1f}",
        str(first.get("split", "")),
        str(len(rows)),
    )
    text = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    link = f'<a href="/watch/{html.escape(replay_id)}.html">{html.escape(replay_id[:12])}</a>'
    return f"<tr><td>{link}</td>{text}</tr>"

"""Rows of an index, of replays that do not exist."""

from starmill.schema import reasons, replay_row


def row(number: int, **changes) -> replay_row.ReplayRow:
    players = (
        replay_row.PlayerRow(
            player_id=1, race="Terr", mmr=4000 + number, result="Win",
            mmr_source=reasons.MmrSource.METADATA,
        ),
        replay_row.PlayerRow(
            player_id=2, race="Zerg", mmr=3000, result="Loss",
            mmr_source=reasons.MmrSource.METADATA,
        ),
    )  # fmt: skip
    fields = {
        "replay_id": f"{number:064x}",
        "file_stem": f"game{number}",
        "source": f"/replays/game{number}.SC2Replay",
        "size_bytes": 1000,
        "engine": "skirmish",
        "game_version": "4.9.2.74741",
        "base_build": 74741,
        "ladder": True,
        "human_players": 2,
        "players_listed": 2,
        "duration_loops": 1000,
        "players": players,
    }
    return replay_row.ReplayRow(**{**fields, **changes})

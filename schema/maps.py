"""Canonical map names by the handle of the map's file.

A replay's map title is in the client's language; its handle, the sha256 of the map file,
is not. `tables/maps.json` maps handles to the English title, per published revision of a
map, and grows with the replays that are met. Where a handle is unknown the title stands.
"""

from starmill.schema import vocab


def map_name(handle: str | None, title: str | None) -> str | None:
    """Returns the canonical name of a map; its title where the handle is not known."""
    name: str | None = vocab.table("maps").get(handle or "", title)
    return name

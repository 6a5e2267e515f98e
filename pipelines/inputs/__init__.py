"""Where replays come from: folders, packs, object stores, and Blizzard's API.

Enters: paths, URLs, versions of the game. Leaves: addresses and bytes of replay files.
Must not know: what becomes of the replays.
"""

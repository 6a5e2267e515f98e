"""Where replays come from: folders, packs, object stores, Blizzard's API.

Enters: paths and URLs. Leaves: replay files' names and bytes.
Must not know: what is made of the replays.
"""

"""The viewer of games: what a page needs to play a game from both sides, and the page itself.

Enters: steps of episodes, or a replay with a game that can play it. Leaves: JSON for the viewer's
script, and HTML pages that need no other file.
Must not know: how datasets are built, and how evaluations are stored.
"""

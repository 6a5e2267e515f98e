"""Reports of a tournament: Markdown, JSON, and one HTML page.

Enters: ratings and the results of games. Leaves: files.
Must not know: how games are played.
"""

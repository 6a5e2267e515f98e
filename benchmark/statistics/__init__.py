"""How players play: what they command, what the game refuses, what they own and when they attack.

Enters: observations, actions and the game's answers; or the episodes of a dataset. Leaves: one record
per player and game, and summaries of many records.
Must not know: live games, which agents exist, and how outcomes become ratings.
"""

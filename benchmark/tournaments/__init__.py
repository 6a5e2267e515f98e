"""Plays many games: the schedule, the referee that plays one game, and the workers.

Enters: contestants and a number of games. Leaves: one result per game.
Must not know: how results become ratings.
"""

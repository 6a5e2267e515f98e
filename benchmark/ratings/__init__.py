"""From games to ratings: win rates, Elo with intervals, robustness, and reference ratings.

Enters: results of games. Leaves: tables of numbers.
Must not know: how games are played.
"""

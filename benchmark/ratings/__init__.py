"""From outcomes to ratings: win rates, Elo with intervals, robustness, references.

Enters: results of games. Leaves: tables of numbers.
Must not know: how games are played.
"""

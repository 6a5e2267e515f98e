"""Skirmish, the embedded game: a small deterministic game that speaks StarCraft II's protocol.

Enters: a client's requests, the names of two players, or a number of games. Leaves: responses,
replay files, an installation. Must not know: what is done with them: datasets, learners, ratings.
"""

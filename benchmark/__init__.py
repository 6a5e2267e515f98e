"""Which agent is better: games, opponents, tournaments, ratings and reports.

Enters: agents and a game. Leaves: results, ratings with intervals, and reports. Must not know:
how agents are trained, and Beam.
"""

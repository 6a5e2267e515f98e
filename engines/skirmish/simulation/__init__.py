"""The game itself: state, rules and the compiled loop that advances it.

Enters: orders of two players. Leaves: the state after a number of game loops.
Must not know: observations, protocol messages, players or replay files.
"""

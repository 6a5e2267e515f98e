"""The game itself: its state, its rules, and the compiled loop that advances it.

Enters: a map, a seed, and both players' inputs, loop by loop. Leaves: the state after each loop,
refused commands, events and the result. `game` is the door; `loop` shows what happens in a loop.
Must not know: observations, protocol messages, bots, replay files or the server.
"""

"""Engines: replay files, game processes that play them back, and the embedded game.

Enters: the bytes of a replay; where the game is installed. Leaves: facts of a replay
(`replays.replay_file`), running games (`pool`), and observations as the game sent them
(`playback`), which are the doors for others. Must not know: arrays, datasets, agents.

    bytes -> replays.replay_file -> loops on which each player acted
    version -> installation -> pool -> game_process + client -> playback -> observations
"""

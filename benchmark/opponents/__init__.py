"""Who plays: agents, scripted specialists and built-in bots, by name.

Enters: a contestant's text on the command line. Leaves: a contestant that can play.
Must not know: schedules, tournaments and ratings.
"""

"""Everything that can play: trained agents, scripted specialists, and a random player.

Enters: a contestant's text from the command line. Leaves: an agent that plays.
Must not know: schedules, tournaments and ratings.
"""

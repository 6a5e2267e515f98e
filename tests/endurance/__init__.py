"""Steps of `make soak` besides builds on runners: commands that are killed, and disks that fill.

Each step is a function that takes a folder and raises AssertionError, with a sentence, if what it
tests does not hold. It returns a line for the log.
"""

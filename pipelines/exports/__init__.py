"""Exports: a dataset in the layouts that other tools read.

Enters: an opened dataset. Leaves: files at any address.
Must not know: the game, or how a dataset was made.
"""

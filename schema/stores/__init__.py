"""Stores: what the clients of object stores mean by their errors.

Enters: an error. Leaves: a sentence, or nothing.
Must not know: the clients, which are optional, or what is stored.
"""

"""The schema: what the data is, and how it is stored.

Enters: arrays, rows and files. Leaves: settings, specs, records, shards, manifests, and batches
(`loader`). Must not know: the game's messages, engines, Beam or JAX. Every package may import it.
"""

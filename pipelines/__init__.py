"""From replay files to a dataset; the only package that knows Beam.

Enters: replay files or packs, an index of them, a selection, and converter settings.
Leaves: a dataset folder with shards, tables, card and manifest, and reports and exports of it.
Must not know: JAX, agents or ratings, or which game plays the replays.
"""

"""Pages that compare two datasets, two training runs, or two evaluations.

Enters: two of a kind. Leaves: one HTML page.
Must not know: how any of them was made.
"""

"""A dataset as one HTML page: statistics, charts and an episode viewer.

Enters: a dataset. Leaves: a page.
Must not know: how the dataset was made.
"""

"""The report of a dataset: one HTML page with statistics, charts and an episode viewer.

Enters: an open dataset. Leaves: an HTML file that needs no other file.
Must not know: how the dataset was built.
"""

"""Evaluation results as text, CSV, JSON and one HTML page.

Enters: results and ratings. Leaves: files.
Must not know: how games are played.
"""

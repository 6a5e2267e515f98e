"""The one place that says which release this is."""

__version__ = "0.1.0"
# The day of this release, for metadata of what it makes.
RELEASED = "2026-11-19"

"""The commands that write pages for a browser: reports, and games to watch."""

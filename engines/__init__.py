"""Playing and replaying: replay files, game processes, the embedded game."""

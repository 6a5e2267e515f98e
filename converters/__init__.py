"""Game messages to arrays and back; pure functions."""

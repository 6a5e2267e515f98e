"""Skirmish: a small deterministic game behind the StarCraft II protocol."""

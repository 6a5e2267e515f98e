"""Attacks on what starmill reads and writes, for tests and for `make fuzz`.

Each module attacks one kind of thing. Attacks are functions of a number, so a failure repeats;
digests and checksums of forged things are valid, because a hostile writer's would be.
"""

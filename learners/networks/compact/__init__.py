"""A small network: it sees units as a set, and aims relative to units.

Enters: observations and actions as arrays. Leaves: latents, logits, values and sampled actions, as the
other networks give them.
Must not know: any game's unit types or rules. What a type is good for, it learns from the data.
"""

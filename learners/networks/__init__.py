"""The agents' networks: observation streams, memory, and the heads of the policy.

Enters: observations and actions as arrays. Leaves: latents, logits, values and sampled actions.
Must not know: losses, files and datasets.
"""

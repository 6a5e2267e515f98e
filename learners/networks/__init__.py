"""The agents' networks: observation streams, memory, and the heads of the policy.

Enters: observations and actions as arrays. Leaves: logits, values and latent states.
Must not know: losses, files and datasets.
"""

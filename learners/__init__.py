"""The reference agents, in JAX."""

"""Tells XLA to optimise little, because compiling takes most of these tests' time."""

import jax

jax.config.update("jax_disable_most_optimizations", True)

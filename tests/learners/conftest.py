"""Compiling is nearly all that these tests spend time on, so XLA is told not to try hard."""

import jax

jax.config.update("jax_disable_most_optimizations", True)

"""Tells XLA to optimise little, because compiling takes most of these tests' time.

For the same reason tests share what was compiled, and the processes that they start with them.
"""

import atexit
import os
import shutil
import tempfile

import jax

_folder = tempfile.mkdtemp(prefix="starmill-jax-")
atexit.register(shutil.rmtree, _folder, ignore_errors=True)
os.environ["STARMILL_TEST_JAX_CACHE"] = _folder
jax.config.update("jax_disable_most_optimizations", True)
jax.config.update("jax_compilation_cache_dir", _folder)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)

"""JAX's compiled code, kept on disk between runs, in a folder that anyone may delete.

In: nothing, or a folder. Out: JAX reads and writes its persistent cache there. What was compiled
for one kind of processor is not offered to another. Must not know: networks and runs.
"""

import hashlib
import os
import platform
from pathlib import Path

import jax

# Code that compiles faster than this is not worth a file.
LEAST_SECONDS = 0.5


def keep(folder: Path | None = None) -> Path:
    """Keeps compiled code in the folder from now on; returns the folder.

    A folder that the user gave to JAX itself (JAX_COMPILATION_CACHE_DIR) is left as it is.
    """
    present = jax.config.values["jax_compilation_cache_dir"]
    if present:
        return Path(present)
    folder = folder or default_folder()
    jax.config.update("jax_compilation_cache_dir", str(folder / _processor()))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)
    return folder


def default_folder() -> Path:
    """Returns starmill/jax in the user's folder for caches, ~/.cache unless set otherwise."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "starmill" / "jax"


def _processor() -> str:
    """Returns a name that differs where the processor's instructions do."""
    text = platform.machine() + platform.processor()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = info.read_text("utf-8", "replace").splitlines()
        text += next(
            (one for one in lines if one.startswith(("flags", "Features"))), ""
        )
    return f"{platform.machine()}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

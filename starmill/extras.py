"""Which optional packages a part of starmill needs, and what to tell a user who lacks them.

In: the error of an import. Out: one sentence that names the extra to install. `setup.py` has the
packages of each extra; a test keeps the two in step. Must not know: commands.
"""

# Top-level module -> the extra that installs it. The core has what a reader of datasets needs.
EXTRA_OF_MODULE = {
    "absl": "generate",
    "apache_beam": "generate",
    "dm_env": "generate",
    "mpyq": "generate",
    "pysc2": "generate",
    "s2clientprotocol": "generate",
    "s2protocol": "generate",
    "websockets": "generate",
    "chex": "learners",
    "flax": "learners",
    "jax": "learners",
    "mctx": "learners",
    "optax": "learners",
    "orbax": "learners",
    "tensorflow": "tensorflow",
    "tensorflow_datasets": "tensorflow",
    "gcsfs": "gcp",
    "huggingface_hub": "hub",
    "s3fs": "s3",
    "wandb": "wandb",
}


def extra_for(error: ModuleNotFoundError) -> str | None:
    """Returns the extra that installs the missing module; None if it belongs to no extra."""
    parts = (error.name or "").split(".")
    for count in range(len(parts), 0, -1):
        extra = EXTRA_OF_MODULE.get(".".join(parts[:count]))
        if extra:
            return extra
    return None


def advice(part: str, error: ModuleNotFoundError) -> str | None:
    """Returns a sentence that says which extra a part of starmill needs; None if no extra would help."""
    extra = extra_for(error)
    if extra is None:
        return None
    return (
        f"{part} needs the package {error.name}, which is not installed: "
        f"pip install 'starmill[{extra}]'"
    )

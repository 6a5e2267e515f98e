"""The output folder of a build: what may be in it before, and what must be in it at the end.

In: the folder, and the build's name or its shards. Out: nothing, or an error that names the file
that does not belong. Only files with names that builds write are ever deleted.
"""

from collections.abc import Sequence

from starmill.pipelines import claims, work_folder
from starmill.schema import card, errors, manifest, shards, storage, table

# The work folder, unless another one is named.
WORK = "_work"
# Files of a dataset beside its shards and its manifest.
_TABLES = (
    table.EPISODES,
    table.QUARANTINE,
    table.UNSELECTED,
    card.README,
    card.CROISSANT,
)


def check(output: str, name: str, version: str, *, has_work: bool) -> None:
    """Raises ConfigError if the output folder holds anything but this dataset.

    Args:
        output: path or URL of the folder.
        name: of the dataset.
        version: of the dataset.
        has_work: whether the work folder is elsewhere.
    """
    with work_folder.reported(f"{output}: cannot be reached"):
        names = storage.names(output)
    foreign = [name for name in names if not is_ours(name)]
    if manifest.NAME in names:
        content = manifest.read(output)
        if (content.name, content.version) != (name, version):
            raise errors.ConfigError(
                f"{output}: already holds {content.reference()}; "
                "choose another --output"
            )
    elif foreign:
        raise errors.ConfigError(
            f"{output}: expected an empty folder or an unfinished build, found "
            f"{foreign[0]!r}{' and others' if len(foreign) > 1 else ''}; "
            "choose another --output"
        )
    elif not (all(map(claims.is_ours, names)) or WORK in names or has_work):
        raise errors.ConfigError(
            f"{output}: holds files of a build whose work folder is missing; "
            "choose another --output, or pass the --work of that build"
        )


def is_ours(name: str) -> bool:
    """Returns whether a build writes a file of this name to the output folder."""
    target = storage.temporary_target(name) or name
    return (
        shards.is_shard_name(target)
        or claims.is_ours(name)
        or target == WORK
        or manifest.split_number(target)[0] in (manifest.NAME, *_TABLES)
    )


def check_and_clean(output: str, entries: Sequence[shards.ShardEntry]) -> None:
    """Checks that all shards are there, and deletes what interrupted runs left beside them.

    The latter are temporary files, and shards of an earlier list of replays. A listing tells, with
    one request for a thousand files. Raises ShardCorrupt if a shard is missing or if another
    process has replaced it since it was joined.
    """
    sizes = storage.sizes(output)
    for entry in entries:
        size = sizes.get(entry.name)
        if size != entry.size_bytes:
            raise errors.ShardCorrupt(
                f"{output}/{entry.name}: expected {entry.size_bytes:,} bytes, found "
                f"{'no file' if size is None else f'{size:,}'}; another process changed "
                "it. Run the command again"
            )
    current = {entry.name for entry in entries}
    for name in sizes:
        is_temporary = storage.temporary_target(name) is not None and is_ours(name)
        if is_temporary or (shards.is_shard_name(name) and name not in current):
            storage.delete(storage.join(output, name))

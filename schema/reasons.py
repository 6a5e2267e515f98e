"""The fixed vocabulary of reasons: why a replay is rejected, and where a rating comes from.

Enters: nothing. Leaves: enumerations whose values are stored in indexes and quarantines, so a
value never changes its spelling. Must not know: who rejects, or how.
"""

import enum


class RejectReason(enum.StrEnum):
    """Why a replay is not in the dataset. The value is what tables and counters show."""

    # Problems of the file, found by `engines/replays/replay_file` and the index.
    UNREADABLE = "unreadable"  # reading failed: an I/O error, a damaged zip
    NOT_A_REPLAY = "not_a_replay"  # not an MPQ archive
    TRUNCATED = "truncated"  # tables or members extend beyond the end of the file
    CORRUPT = "corrupt"  # the container is damaged
    TOO_LARGE = "too_large"  # over a limit on sizes or counts
    TOO_SLOW = "too_slow"  # over the limit on time
    BAD_HEADER = "bad_header"
    NO_METADATA = "no_metadata"  # replays older than 3.3, or a stripped file
    BAD_METADATA = "bad_metadata"
    NO_PROTOCOL = "no_protocol"  # s2protocol has no description of this build
    BAD_DETAILS = "bad_details"
    BAD_INIT_DATA = "bad_init_data"
    NO_EVENTS = "no_events"  # replay.game.events is not in the archive
    BAD_EVENTS = "bad_events"
    EVENTS_TOO_LARGE = "events_too_large"  # over a limit on game events
    # The selection's rules, in the order in which they are applied.
    EXCLUDED = "excluded"  # on the selection's list of exclusions
    NOT_LISTED = "not_listed"  # not on the selection's list of replays
    ENGINE = "engine"  # recorded by the other game, StarCraft II or Skirmish
    VERSION = "version"
    LADDER = "ladder"
    PLAYERS = "players"  # not exactly two humans
    MMR_UNKNOWN = "mmr_unknown"
    MMR = "mmr"
    MAP = "map"
    RACE = "race"
    OUTCOME = "outcome"
    LENGTH = "length"
    # Problems of playing and converting, found by `generate`.
    DUPLICATE = "duplicate"  # the same bytes as another replay of the input, or of the extended dataset
    ENGINE_MISSING = "engine_missing"
    ENGINE_CRASHED = "engine_crashed"
    ENGINE_TIMEOUT = "engine_timeout"
    ENGINE_REFUSED = "engine_refused"  # the game refuses to load the replay
    DESYNC = "desync"  # the playback differs from the recorded game
    CONVERTER = "converter"
    SPEC = "spec"


class MmrSource(enum.StrEnum):
    """Where a player's MMR comes from, or why there is none.

    In a 1v1 with a Random player the metadata has no MMR key, so the rating is taken from
    initData. An invalid value in the metadata is not replaced by the one in initData.
    """

    METADATA = "metadata"
    INIT_DATA = "init_data"
    UNRATED = "unrated"  # -36400, by which the game marks an unrated player
    INVALID = "invalid"  # present, and not a positive whole number
    MISSING = "missing"

"""Conformance: checks starmill's assumptions about the game against a given game.

Enters: an installation, replays, and limits. Leaves: a `Report` that says of each assumption
whether it held, with the first difference where it did not, and rates for the cost of a build.
Must not know: datasets, Beam, or which of the two games it tests.

The room stands above `pool` and `playback`, because it plays through them as the pipeline does;
what it finds out is then true of the pipeline. It is not in `pipelines`, whose contract keeps
requests and messages out. It converts with `converters.episode`, as a build does, but needs no
codec: equal arrays are encoded alike.

    assumptions -> ledger <- transcript, messages, requests, recording, comparison, live -> report
"""

"""The replay file format, read and written without a game.

Enters: the bytes of a file, or the members to store. Leaves: an index row, decoded values, or
the bytes of a file; `replay_file` is the door for readers. Must not know: how a game is
played or simulated.

    archive      members of the MPQ container     archive_writer writes it
    tagged       header, details, tracker events  read and written
    bit_packed   initData, game events, messages  read and written
    event_scan   a few fields of the above, fast
    protocols    the type tables (`type_table`) of each build
    facts        what a row says of the game      limits bounds the cost
"""

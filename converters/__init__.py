"""The converter: the game's messages to arrays of the dataset, and actions back.

Enters: wire bytes of one player's game, in order (`episode`, `observation.Converter`). Leaves:
a dict of arrays per step, as `schema/specs` describes them, or a RequestAction. Must not know:
replays, engines or datasets.

    episode      a player's observations to the steps of an episode
    observation  one observation to arrays, with what is remembered between steps
    units, minimap, camera, actions, geometry     parts of an observation
    columns, message_fields, wire, protos         messages as bytes
    timing       which game loops become steps
    capture      recorded inputs and expected arrays, for comparisons
"""

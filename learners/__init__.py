"""The reference agents, in JAX: how they learn, how they are stored and how they act.

Enters: datasets (`starmill.schema.loader`) and run configurations. Leaves: the folder of a training
run, `.agent` files, and agents that map observations to actions.
Must not know: converters, game engines, Beam, and who plays against whom.
"""

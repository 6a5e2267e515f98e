"""The network that DeepMind published with AlphaStar Unplugged: the same parameters and function.

Enters: observations and actions as the converter makes them, [B, ...]. Leaves: masked logits of
every argument, the latent, and the published loss.
Must not know: files, datasets, and the other networks of this package.

    vector -- vector_encoder --+                          +-- function -- delay -- queued -- repeat
    units  -- unit_encoder   --+-- torso -- latent -------+-- unit_tags -- target_unit_tag
    planes -- plane_encoder  --+                          +-- world
"""

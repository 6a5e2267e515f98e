"""What the data is: errors, specs, records, codec, shards, manifest, dataset."""

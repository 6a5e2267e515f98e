"""The list of a dataset's replays: one row each, linked, whatever the maps are called."""

import re

from starmill.pipelines.viewing import listing
from starmill.schema.loader import dataset
from tests.factories import records


def test_every_replay_has_a_row_with_a_link(tmp_path):
    records.dataset(str(tmp_path))
    opened = dataset.open_dataset(str(tmp_path))
    ids = listing.replay_ids(opened)
    assert ids == list(dict.fromkeys(opened.table.column("replay_id").to_pylist()))
    page = listing.render(opened)
    assert re.findall(r'href="/watch/(\w+)\.html"', page) == ids
    assert f"{len(ids):,} of {len(ids):,} replays" in page
    for row in opened.table.to_pylist():
        assert row["map_name"] in page

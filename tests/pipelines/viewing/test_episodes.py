"""Episodes of a dataset in pieces give what the whole arrays give; ids find games."""

import pytest

from starmill.pipelines.viewing import episodes, packing
from starmill.schema import errors
from starmill.schema.loader import dataset
from tests.factories import records


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    path = tmp_path_factory.mktemp("dataset")
    records.dataset(str(path))
    return dataset.open_dataset(str(path))


def test_pieces_give_the_whole(opened, monkeypatch):
    monkeypatch.setattr(episodes, "_STEPS", 7)
    payload = episodes.payload(opened, 1)
    whole = packing.pack(opened[1].load().arrays, opened.settings)
    assert {key: payload[key] for key in whole} == whole
    assert payload["id"] == opened[1].meta.episode_id
    assert payload["map"] == opened[1].meta.map_name


def test_games_are_found_by_the_beginning_of_an_id(opened):
    meta = opened[0].meta
    game = episodes.game(opened, meta.replay_id[:8])
    sides = {
        row["player_id"]
        for row in opened.table.to_pylist()
        if row["replay_id"] == meta.replay_id
    }
    assert game.game_id == meta.replay_id
    assert {side["side"] for side in game.sides} == sides
    assert episodes.game(opened, meta.episode_id).game_id == meta.replay_id


@pytest.mark.parametrize("name", ["", "zz", "-1"])
def test_other_ids_are_named(opened, name):
    with pytest.raises(errors.ConfigError, match="found no replay"):
        episodes.game(opened, name)


def test_a_side_that_is_not_there_is_named(opened):
    with pytest.raises(errors.ConfigError, match="does not have this side"):
        episodes.game(opened, f"{opened[0].meta.replay_id}-7")

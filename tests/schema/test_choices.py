from starmill.schema import choices


def test_a_choice_that_exists_is_no_problem():
    assert choices.problem("split", "train", ["train", "valid"]) is None
    assert choices.problem("outcome", 1, (1, 0, -1)) is None


def test_others_are_told_what_there_is():
    splits = ("train", "valid", "test")
    assert (
        choices.problem("split", "tran", splits)
        == "split 'tran': there are train, valid, test; did you mean 'train'?"
    )
    assert (
        choices.problem("split", "xyz", splits)
        == "split 'xyz': there are train, valid, test"
    )
    assert choices.problem("outcome", 2, (1, 0, -1)) == "outcome 2: there are 1, 0, -1"
    assert choices.problem("key", ["a"], ("a", "b")) == "key ['a']: there are a, b"
    many = choices.problem("map_name", "?", [f"map {n}" for n in range(50)])
    assert many.endswith("map 38, map 39 and 10 more")

"""What an agent's process answers to turns, without the process."""

import pytest

from starmill.benchmark.opponents import acting_server, contestants
from starmill.schema import errors
from tests.factories import small_agents


@pytest.fixture(scope="module")
def actor(tmp_path_factory):
    folder = tmp_path_factory.mktemp("oac")
    small_agents.write_run(folder, "oac")
    return contestants.load_actor(contestants.contestant(f"{folder}?lanes=2"))


def _turn(actor, game, step=0, **changes):
    observation = {**small_agents.observation(game, step), **changes}
    return acting_server._Waiting(None, actor.begin(game), observation)


def test_turns_are_answered_with_moves_and_what_the_agent_expects(actor):
    first, second = acting_server.answers(actor, [_turn(actor, 0), _turn(actor, 1)])
    (alone,) = acting_server.answers(actor, [_turn(actor, 1)])
    assert second.value == alone.value != first.value
    assert {key: value.tobytes() for key, value in second.action.items()} == {
        key: value.tobytes() for key, value in alone.action.items()
    }


def test_a_turn_that_fails_does_not_affect_the_others(actor):
    damaged = _turn(actor, 0)
    del damaged.observation["player"]
    wrong, right = acting_server.answers(actor, [damaged, _turn(actor, 1)])
    assert isinstance(wrong, errors.SpecError)
    assert "player" in str(wrong)
    assert right.value == acting_server.answers(actor, [_turn(actor, 1)])[0].value


def test_an_agent_that_fails_is_named_with_its_mistake(actor):
    (answer,) = acting_server.answers(actor, [_turn(actor, 0, player="text")])
    assert isinstance(answer, errors.AgentError)
    assert "ValueError" in str(answer)


def test_only_trained_agents_have_such_a_process():
    with pytest.raises(errors.ConfigError, match="expected a trained agent"):
        contestants.load_actor(contestants.contestant("rush"))

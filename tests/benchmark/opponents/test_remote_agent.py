"""An agent in another process acts as in this one, and nobody waits for it for ever."""

import threading
from multiprocessing.connection import Listener

import numpy as np
import pytest

from starmill.benchmark.opponents import contestants
from starmill.benchmark.opponents.remote_agent import Patience, RemoteAgent
from starmill.benchmark.tournaments import acting_servers, schedule
from starmill.schema import errors
from tests.factories import small_agents


def _fixture(name):
    return schedule.Fixture(
        game="game",
        home=name,
        away="easy",
        home_race="terran",
        away_race="zerg",
        map_path="x.SC2Map",
        seed=1,
    )


@pytest.fixture(scope="module")
def player(tmp_path_factory):
    folder = tmp_path_factory.mktemp("oac")
    small_agents.write_run(folder, "oac")
    return contestants.contestant(f"oac={folder}")


@pytest.fixture(scope="module")
def servers(player):
    with acting_servers.ActingServers([player], threads=2) as servers:
        servers.prepare(_fixture("oac"))
        yield servers


def test_two_games_at_once_get_the_actions_of_an_agent_here(player, servers):
    remote = [RemoteAgent("oac", servers.addresses["oac"]) for _ in range(2)]
    local = [contestants.load(player, small_agents.SETTINGS) for _ in range(2)]
    for game in range(2):
        remote[game].reset(game, "zerg")
        local[game].reset(game, "zerg")
        assert remote[game].settings == local[game].settings
        assert remote[game].value is None
    for step in range(3):
        for game in (1, 0):
            seen = small_agents.observation(game, step)
            expected, action = local[game].act(seen), remote[game].act(seen)
            assert list(action) == list(expected)
            for name, value in expected.items():
                np.testing.assert_array_equal(action[name], value)
            # This process adds numbers in several threads.
            assert remote[game].value == pytest.approx(local[game].value, abs=1e-5)


def test_a_turn_that_the_agent_refuses_raises_here_and_the_game_goes_on(servers):
    agent = RemoteAgent("oac", servers.addresses["oac"])
    agent.reset(0, "zerg")
    seen = small_agents.observation()
    with pytest.raises(errors.SpecError, match="player"):
        agent.act({key: value for key, value in seen.items() if key != "player"})
    assert agent.act(seen)


def test_a_process_that_dies_is_told_and_the_next_game_finds_another(servers):
    agent = RemoteAgent("oac", servers.addresses["oac"])
    agent.reset(0, "zerg")
    process = servers._processes["oac"]
    process.kill()
    process.join()
    with pytest.raises(
        errors.AgentLost, match="oac: the process in which it acts ended"
    ):
        agent.act(small_agents.observation())
    with pytest.raises(errors.AgentLost, match="left during the game"):
        agent.act(small_agents.observation())
    servers.tend()
    agent.reset(0, "zerg")
    assert agent.act(small_agents.observation())


def test_an_agent_that_cannot_be_loaded_says_so_here(tmp_path):
    path = tmp_path / "damaged.agent"
    path.write_bytes(b"no agent")
    player = contestants.contestant(str(path))
    with acting_servers.ActingServers([player], threads=1) as servers:
        servers.prepare(_fixture("damaged"))
        with pytest.raises(errors.FormatError, match=str(path)):
            RemoteAgent("damaged", servers.addresses["damaged"]).reset(0)


def test_nobody_waits_for_ever(tmp_path):
    patience = Patience(start=0.2, act=0.2)
    with pytest.raises(errors.AgentLost, match="answered within 0.2 seconds"):
        RemoteAgent("oac", str(tmp_path / "nowhere"), patience).reset(0)
    address = str(tmp_path / "silent")
    lost = pytest.raises(errors.AgentLost, match="did not answer within")
    with Listener(address), lost:
        _ = RemoteAgent("oac", address, patience).settings
    with Listener(address) as listener:
        agent = RemoteAgent("oac", address, Patience(start=60, act=0.2))
        accepted = []

        def greet():
            accepted.append(listener.accept())
            accepted[0].send(small_agents.SETTINGS)

        greeting = threading.Thread(target=greet)
        greeting.start()
        agent.reset(0)
        greeting.join()
        with pytest.raises(errors.AgentLost, match=r"did not answer within 0\.2"):
            agent.act(small_agents.observation())

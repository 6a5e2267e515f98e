"""What other people's clients do, one function each, run in a process of its own.

    SC2PATH=DIR python -m tests.engines.skirmish.client_scripts NAME [ARGUMENT ...]

pysc2 reads flags and leaves sockets to the collector; a child process keeps that apart from the
test run. Prints one line of JSON.
"""

import json
import sys
from pathlib import Path


def start():
    """run_configs.get().start(): launch, ping, quit."""
    from pysc2 import run_configs

    with run_configs.get(version="4.9.2").start(want_rgb=False) as controller:
        ping = controller.ping()
        return {
            "version": ping.game_version,
            "maps": len(controller.available_maps().local_map_paths),
        }


def environment(difficulty, steps):
    """SC2Env with pysc2's random agent against one difficulty."""
    from pysc2.agents import random_agent
    from pysc2.env import run_loop, sc2_env

    players = [
        sc2_env.Agent(sc2_env.Race.random),
        sc2_env.Bot(sc2_env.Race.random, sc2_env.Difficulty[difficulty]),
    ]
    interface = sc2_env.parse_agent_interface_format(
        feature_screen=32, feature_minimap=32, use_feature_units=True
    )
    with sc2_env.SC2Env(
        map_name="Simple64",
        players=players,
        agent_interface_format=interface,
        step_mul=8,
        game_steps_per_episode=int(steps),
        random_seed=1,
    ) as env:
        agent = random_agent.RandomAgent()
        run_loop.run_loop([agent], env, max_episodes=1)
        return {"steps": agent.steps, "reward": int(agent.reward)}


def stream(replay):
    """ReplayObservationStream over a whole replay."""
    from pysc2.lib.replay import replay_observation_stream
    from s2clientprotocol import sc2api_pb2

    options = sc2api_pb2.InterfaceOptions(raw=True, score=False)
    options.feature_layer.width = 24
    for size in (
        options.feature_layer.resolution,
        options.feature_layer.minimap_resolution,
    ):
        size.x = size.y = 32
    loops, actions = [], 0
    with replay_observation_stream.ReplayObservationStream(
        interface_options=options, step_mul=50
    ) as reader:
        reader.start_replay_from_data(Path(replay).read_bytes(), player_id=1)
        for observation in reader.observations():
            loops.append(observation.observation.game_loop)
            actions += len(observation.actions)
    return {"first": loops[0], "last": loops[-1], "actions": actions}


def main():
    from starmill.converters import protos

    protos.mark_flags_parsed()
    name, *arguments = sys.argv[1:]
    import pysc2.env.sc2_env  # noqa: F401  # defines the flags that are set below
    from absl import flags

    flags.FLAGS.sc2_timeout = 120
    scripts = {"start": start, "environment": environment, "stream": stream}
    print(json.dumps(scripts[name](*arguments)))  # noqa: T201


if __name__ == "__main__":
    main()

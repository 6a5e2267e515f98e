from starmill.engines.skirmish.players import match, random_player
from starmill.engines.skirmish.simulation import maps
from starmill.engines.skirmish.simulation.game import Game, Leave, PlayerSetup

SETUPS = (
    PlayerSetup(race_requested=1, race=1, start=0),
    PlayerSetup(race_requested=3, race=3, start=1),
)


class Scripted:
    """A player that gives inputs on given loops."""

    def __init__(self, inputs):
        self._inputs = dict(inputs)
        self.asked = []

    @property
    def next_loop(self):
        later = [loop for loop in self._inputs if loop not in self.asked]
        return min(later, default=10**9)

    def act(self, game, player):
        if game.loop not in self._inputs:
            return []
        self.asked.append(game.loop)
        return self._inputs[game.loop]


def _play(players, **options):
    game_map = maps.MAPS["Amber Basin"]
    return match.play_match(game_map, SETUPS, players, 5, **options)


def test_players_are_asked_on_their_loops_and_a_surrender_ends_the_game():
    home, away = Scripted({}), Scripted({7: [], 300: [Leave(2)]})
    played = _play([home, away])
    assert away.asked == [7, 300]
    assert played.inputs == ((300, Leave(2)),)
    assert played.result == {1: "win", 2: "loss"}
    assert played.loops == 300


def test_a_game_that_lasts_too_long_is_a_draw():
    played = _play([Scripted({}), Scripted({})], max_loops=200)
    assert played.result == {1: "tie", 2: "tie"}
    assert played.inputs == ((200, Leave(1)), (200, Leave(2)))


def test_the_record_replays_to_the_same_state():
    players = [random_player.RandomPlayer(seed) for seed in (3, 4)]
    played = _play(players, max_loops=900)
    game = Game(maps.MAPS["Amber Basin"], SETUPS, 5)
    inputs: dict[int, list] = {}
    for loop, item in played.inputs:
        inputs.setdefault(loop, []).append(item)
    while game.loop < played.loops:
        game.step(inputs.get(game.loop, []))
    again = match.replay_match(played)
    assert again.state_digest() == game.state_digest()
    assert again.result is None  # the surrenders come on the loop at which it ends
    halfway = match.replay_match(played, until=450)
    assert halfway.loop == 450
    assert halfway.result is None


def test_events_are_watched_before_their_buffer_is_full():
    loops = []
    game = Game(maps.MAPS["Amber Basin"], SETUPS, 5)
    players = [Scripted({}), Scripted({650: [Leave(1)]})]
    match.play_out(game, players, watch=lambda: loops.append(game.loop))
    assert loops == [160, 320, 480, 640]

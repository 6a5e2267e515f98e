"""The members of a replay that describe a game: metadata, details, lobby, attributes.

In: `Facts` of a game. Out: bytes, or fields ready to be encoded. The constants are those of
ranked 1v1 replays of versions 4.8.2 to 4.9.2. Must not know: what happened in the game, except
its result.
"""

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import Any

from starmill.engines.skirmish import versions
from starmill.engines.skirmish.replays import streams
from starmill.engines.skirmish.simulation.game import (
    Game,
)
from starmill.schema.game_constants import (
    PROTOSS,
    RACE_CODES,
    RACE_NAMES,
    TERRAN,
    ZERG,
)

RESULT_NAMES = {"win": "Win", "loss": "Loss", "tie": "Tie"}
_RESULT_NUMBERS = {"win": 1, "loss": 2, "tie": 3}
_GLOBAL_USER = 16
_REGION = b"US"
# All replays since 3.0 have these dependencies; sc2reader recognizes the expansion by the second.
_DEPENDENCIES = (b"Standard Data: Core.SC2Mod", b"Standard Data: Void.SC2Mod")
# 1 June 2019 in units of 100 ns since 1601. The seed adds seconds, so that games differ.
_TIME_UTC = 132_038_208_000_000_000
_COLORS = ((255, 180, 20, 30), (255, 0, 66, 255))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Participant:
    """One player, as files and answers describe it.

    Attributes:
        name: the player's name.
        mmr: the rating; None if unrated.
        computer: whether the game's own AI plays.
        difficulty: a computer's Difficulty; 0 for other players.
        build: a computer's AIBuild, 1 (random) if unknown; meaningless for other players.
    """

    name: str
    mmr: int | None = None
    computer: bool = False
    difficulty: int = 0
    build: int = 1

    def stored(self) -> dict[str, Any]:
        """Returns the fields that the file keeps: only computers have a build."""
        values = dataclasses.asdict(self)
        if not self.computer:
            del values["build"]
        return values

    @property
    def toon_id(self) -> int:
        """An account number that depends only on the name."""
        digest = hashlib.sha256(self.name.encode()).digest()
        return int.from_bytes(digest[:4], "big") % 10_000_000 + 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class Facts:
    """What the members describe.

    Attributes:
        game: the game at the loop at which the file ends.
        participants: players 1 and 2.
        version: the game version to write.
        apm: actions per minute of players 1 and 2.
    """

    game: Game
    participants: tuple[Participant, Participant]
    version: versions.Version
    apm: tuple[int, int]

    @property
    def title(self) -> str:
        """The map's title, which no ladder map has."""
        return f"Skirmish {self.game.map.name}"


def _result(facts: Facts, player: int) -> str | None:
    return facts.game.result[player] if facts.game.result is not None else None


def metadata(facts: Facts) -> bytes:
    """Returns `replay.gamemetadata.json`."""
    players = []
    for player, participant in enumerate(facts.participants, start=1):
        setup = facts.game.players[player - 1]
        if setup.absent:
            continue
        rated = {} if participant.mmr is None else {"MMR": participant.mmr}
        players.append(
            {
                "PlayerID": player,
                **rated,
                "APM": float(facts.apm[player - 1]),
                "Result": RESULT_NAMES.get(_result(facts, player) or "", "Undecided"),
                "SelectedRace": RACE_CODES[setup.race_requested],
                "AssignedRace": RACE_CODES[setup.race],
            }
        )
    content = {
        "Title": facts.title,
        "GameVersion": facts.version.game_version,
        "DataBuild": str(facts.version.base_build),
        "DataVersion": facts.version.data_version,
        "BaseBuild": facts.version.directory,
        # In seconds at the game speed "normal", like the real game.
        "Duration": facts.game.loop // 16,
        "Players": players,
        "Engine": "skirmish",
    }
    return json.dumps(content, indent=4).encode()


def header(facts: Facts) -> dict[str, Any]:
    """Returns the fields of the replay's header."""
    major, minor, revision = (int(part) for part in facts.version.number.split("."))
    build = facts.version.base_build
    return {
        "m_signature": b"StarCraft II replay\x1b11",
        "m_version": {
            "m_flags": 1,
            "m_major": major,
            "m_minor": minor,
            "m_revision": revision,
            "m_build": build,
            "m_baseBuild": build,
        },
        "m_type": 2,
        "m_elapsedGameLoops": facts.game.loop,
        "m_useScaledTime": True,
        "m_ngdpRootKey": {"m_data": bytes.fromhex(facts.version.data_version)},
        "m_dataBuildNum": build,
        "m_replayCompatibilityHash": {"m_data": bytes(16)},
        "m_ngdpRootKeyIsDevData": False,
    }


def _cache_handles(facts: Facts) -> list[bytes]:
    names = [*_DEPENDENCIES, facts.title.encode()]
    front = b"s2ma\0\0" + _REGION
    return [front + hashlib.sha256(name).digest() for name in names]


def details(facts: Facts) -> dict[str, Any]:
    """Returns the fields of `replay.details`."""
    players = []
    for index, participant in enumerate(facts.participants):
        setup = facts.game.players[index]
        alpha, red, green, blue = _COLORS[index]
        toon = {
            "m_region": 0 if participant.computer else 1,
            "m_programId": b"\0\0\0\0" if participant.computer else b"\0\0S2",
            "m_realm": 0 if participant.computer else 1,
            "m_id": 0 if participant.computer else participant.toon_id,
        }
        players.append(
            {
                "m_name": participant.name.encode(),
                "m_toon": toon,
                "m_race": RACE_NAMES[setup.race].title().encode(),
                "m_color": {"m_a": alpha, "m_r": red, "m_g": green, "m_b": blue},
                "m_control": 3 if participant.computer else 2,
                "m_teamId": index,
                "m_handicap": 100,
                "m_observe": 0,
                "m_result": _RESULT_NUMBERS.get(_result(facts, index + 1) or "", 0),
                "m_workingSetSlotId": index,
                "m_hero": b"",
            }
        )
    return {
        "m_playerList": players,
        "m_title": facts.title.encode(),
        "m_difficulty": b"",
        "m_thumbnail": {"m_file": b"Minimap.tga"},
        "m_isBlizzardMap": False,
        "m_timeUTC": _TIME_UTC + facts.game.seed % 10_000_000 * 10_000_000,
        "m_timeLocalOffset": 0,
        "m_restartAsTransitionMap": False,
        "m_disableRecoverGame": False,
        "m_description": b"",
        "m_imageFilePath": b"",
        "m_campaignIndex": 0,
        "m_mapFileName": b"",
        "m_cacheHandles": _cache_handles(facts),
        "m_miniSave": False,
        "m_gameSpeed": 4,
        "m_defaultDifficulty": 3,
        "m_modPaths": None,
    }


def init_data(facts: Facts) -> dict[str, Any]:
    """Returns the fields of `replay.initData`."""
    humans = [
        participant for participant in facts.participants if not participant.computer
    ]
    ladder = len(humans) == 2
    lobby = {
        "m_phase": 0,
        "m_maxUsers": 16,
        "m_maxObservers": 14,
        "m_slots": [_slot(facts, index) for index in (0, 1)],
        "m_randomSeed": facts.game.seed,
        "m_hostUserId": None,
        "m_isSinglePlayer": not ladder,
        "m_pickedMapTag": 0,
        "m_gameDuration": 0,
        "m_defaultDifficulty": 3,
        "m_defaultAIBuild": 0,
    }
    state = {
        "m_userInitialData": [_user(facts, index) for index in (0, 1)],
        "m_gameDescription": _description(facts, ladder=ladder),
        "m_lobbyState": lobby,
    }
    return {"m_syncLobbyState": state}


def _user(facts: Facts, index: int) -> dict[str, Any]:
    participant = facts.participants[index]
    return {
        "m_name": participant.name.encode(),
        "m_clanTag": b"",
        "m_clanLogo": None,
        "m_highestLeague": 0,
        "m_combinedRaceLevels": 0,
        "m_randomSeed": 0,
        "m_racePreference": {"m_race": _race_preference(facts, index)},
        "m_teamPreference": {"m_team": None},
        **dict.fromkeys(
            ("m_testMap", "m_testAuto", "m_examine", "m_customInterface"), False
        ),
        "m_testType": 0,
        "m_observe": 0,
        "m_hero": b"",
        "m_skin": b"",
        "m_mount": b"",
        "m_toonHandle": _toon_handle(participant),
        "m_scaledRating": participant.mmr,
    }


def _race_preference(facts: Facts, index: int) -> int | None:
    # The lobby numbers the races in this order; None stands for random.
    order = {TERRAN: 0, ZERG: 1, PROTOSS: 2}
    return order.get(facts.game.players[index].race_requested)


def _toon_handle(participant: Participant) -> bytes:
    return b"" if participant.computer else f"1-S2-1-{participant.toon_id}".encode()


def _slot(facts: Facts, index: int) -> dict[str, Any]:
    participant = facts.participants[index]
    return {
        "m_control": 3 if participant.computer else 2,
        "m_userId": None if participant.computer else index,
        "m_teamId": index,
        "m_colorPref": {"m_color": index + 1},
        "m_racePref": {"m_race": _race_preference(facts, index)},
        "m_difficulty": participant.difficulty if participant.computer else 3,
        "m_aiBuild": 0,
        "m_handicap": 100,
        "m_observe": 0,
        "m_logoIndex": 0,
        "m_hero": b"",
        "m_skin": b"",
        "m_mount": b"",
        "m_artifacts": [],
        "m_workingSetSlotId": index,
        "m_rewards": [],
        "m_toonHandle": _toon_handle(participant),
        "m_licenses": [],
        "m_tandemLeaderId": None,
        "m_commander": b"",
        "m_commanderLevel": 0,
        "m_hasSilencePenalty": False,
        "m_tandemId": None,
        "m_commanderMasteryLevel": 0,
        "m_commanderMasteryTalents": [],
        "m_rewardOverrides": [],
    }


def _description(facts: Facts, *, ladder: bool) -> dict[str, Any]:
    off = ("m_teamsTogether", "m_advancedSharedControl", "m_randomRaces", "m_practice")
    options = {
        **dict.fromkeys(off, False),
        "m_lockTeams": True,
        "m_battleNet": ladder,
        "m_amm": ladder,
        "m_competitive": ladder,
        "m_cooperative": False,
        "m_noVictoryOrDefeat": False,
        "m_heroDuplicatesAllowed": True,
        "m_fog": 0,
        "m_observers": 0,
        "m_userDifficulty": 0,
        "m_clientDebugFlags": 265,
        "m_buildCoachEnabled": False,
    }
    slot = {
        "m_allowedColors": (16, 65279),
        "m_allowedRaces": (3, 7),
        "m_allowedDifficulty": (32, 4261871616),
        "m_allowedControls": (255, (1 << 255) - 1),
        "m_allowedObserveTypes": (3, 7),
        "m_allowedAIBuilds": (255, 0),
    }
    extras = ("m_hasExtensionMod", "m_hasNonBlizzardExtensionMod", "m_isBlizzardMap")
    modes = ("m_isPremadeFFA", "m_isCoopMode", "m_isRealtimeMode")
    return {
        "m_randomValue": facts.game.seed,
        "m_gameCacheName": b"Dflt",
        "m_gameOptions": options,
        "m_gameSpeed": 4,
        "m_gameType": 0,
        "m_maxUsers": 2,
        "m_maxObservers": 14,
        "m_maxPlayers": 2,
        "m_maxTeams": 2,
        "m_maxColors": 16,
        "m_maxRaces": 3,
        "m_maxControls": 1,
        "m_mapSizeX": facts.game.map.width,
        "m_mapSizeY": facts.game.map.height,
        "m_mapFileSyncChecksum": 0,
        "m_mapFileName": b"",
        "m_mapAuthorName": b"skirmish",
        "m_modFileSyncChecksum": 0,
        "m_slotDescriptions": [slot, slot],
        "m_defaultDifficulty": 3,
        "m_defaultAIBuild": 0,
        "m_cacheHandles": _cache_handles(facts),
        **dict.fromkeys((*extras, *modes), False),
    }


def attributes(facts: Facts) -> bytes:
    """Returns `replay.attributes.events`: race, colour, team, control and kind of game."""
    entries: list[tuple[int, int, str]] = [
        (16, 3000, "Fasr"),
        (16, 2001, "1v1"),
        (16, 3009, "Amm"),
    ]
    for scope, participant in enumerate(facts.participants, start=1):
        setup = facts.game.players[scope - 1]
        entries += [
            (scope, 500, "Comp" if participant.computer else "Humn"),
            (scope, 3001, RACE_CODES[setup.race_requested]),
            (scope, 3002, f"tc0{scope}"),
            (scope, 3003, "100"),
            (scope, 2002, f"T{scope}"),
        ]
    return streams.attributes(entries)


def opening_events(
    version: versions.Version,
) -> Iterator[tuple[int, int, str, dict[str, Any]]]:
    """Yields the game events that every file begins with."""
    build = version.base_build
    yield 0, _GLOBAL_USER, "SetSyncLoadingTime", {"m_syncTime": 0}
    off = (
        "m_developmentCheatsEnabled",
        "m_testCheatsEnabled",
        "m_multiplayerCheatsEnabled",
        "m_syncChecksummingEnabled",
        "m_isMapToMapTransition",
        "m_debugPauseEnabled",
        "m_useGalaxyAsserts",
        "m_platformMac",
        "m_cameraFollow",
    )
    for user in (0, 1):
        options = {
            "m_gameFullyDownloaded": True,
            **dict.fromkeys(off, False),
            "m_baseBuildNum": build,
            "m_buildNum": build,
            "m_versionFlags": 0,
            "m_hotkeyProfile": b"",
        }
        yield 0, user, "UserOptions", options
    yield 0, _GLOBAL_USER, "UserFinishedLoadingSync", {}
    yield 0, _GLOBAL_USER, "SetSyncPlayingTime", {"m_syncTime": 0}


def opening_messages() -> Iterator[tuple[int, int, str, dict[str, Any]]]:
    """Yields the message events of the loading screen's progress."""
    for progress in (50, 99):
        for user in (0, 1):
            yield 0, user, "LoadingProgress", {"m_progress": progress}

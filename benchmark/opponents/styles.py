"""What the scripted specialists aim for (their styles), and the units that each race does it with.

In: nothing. Out: two tables. Knows nothing of observations and actions.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Style:
    """A way to play.

    Attributes:
        workers: number of workers; beyond it, only soldiers are trained.
        bases: number of town halls.
        production: number of buildings that train soldiers.
        attack_at: number of soldiers that starts an attack; a third of it ends the attack.
        defences: number of defensive buildings, for races that have one without gas.
    """

    workers: int
    bases: int
    production: int
    attack_at: int
    defences: int


STYLES = {
    "rush": Style(workers=15, bases=1, production=3, attack_at=6, defences=0),
    "economy": Style(workers=38, bases=2, production=7, attack_at=36, defences=0),
    "turtle": Style(workers=24, bases=1, production=4, attack_at=45, defences=5),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class RaceUnits:
    """The units of a race, by what they are for. Names are those of `vocab`.

    Attributes:
        worker: the worker.
        hall: the town hall that workers build.
        halls: every unit that serves as a town hall.
        supply: what raises the supply limit.
        production: the building that soldiers need.
        production_cost: its cost in minerals.
        most_production: more of these buildings are never useful.
        soldier: the soldier, which costs no gas.
        soldier_cost: minerals of one order.
        soldiers_from: what trains soldiers: a building, or larvae.
        workers_from: what trains workers.
        near: what buildings must stand close to: "pylon", "creep", or "" for nothing.
        defence: the defensive building; empty if the race has none without gas.
        defence_needs: the building that it requires; empty if there is no such building.
        functions: the action that makes each of these, by purpose.
    """

    worker: str
    hall: str
    halls: tuple[str, ...]
    supply: str
    production: str
    production_cost: int
    most_production: int
    soldier: str
    soldier_cost: int
    soldiers_from: str
    workers_from: str
    near: str
    defence: str
    defence_needs: str
    functions: dict[str, str]


RACE_UNITS = {
    "terran": RaceUnits(
        worker="Terran.SCV",
        hall="Terran.CommandCenter",
        halls=("Terran.CommandCenter", "Terran.OrbitalCommand"),
        supply="Terran.SupplyDepot",
        production="Terran.Barracks",
        production_cost=150,
        most_production=8,
        soldier="Terran.Marine",
        soldier_cost=50,
        soldiers_from="Terran.Barracks",
        workers_from="Terran.CommandCenter",
        near="",
        defence="",
        defence_needs="",
        functions={
            "worker": "Train_SCV_quick",
            "soldier": "Train_Marine_quick",
            "supply": "Build_SupplyDepot_pt",
            "production": "Build_Barracks_pt",
            "hall": "Build_CommandCenter_pt",
        },
    ),
    "protoss": RaceUnits(
        worker="Protoss.Probe",
        hall="Protoss.Nexus",
        halls=("Protoss.Nexus",),
        supply="Protoss.Pylon",
        production="Protoss.Gateway",
        production_cost=150,
        most_production=8,
        soldier="Protoss.Zealot",
        soldier_cost=100,
        soldiers_from="Protoss.Gateway",
        workers_from="Protoss.Nexus",
        near="pylon",
        defence="Protoss.PhotonCannon",
        defence_needs="Protoss.Forge",
        functions={
            "worker": "Train_Probe_quick",
            "soldier": "Train_Zealot_quick",
            "supply": "Build_Pylon_pt",
            "production": "Build_Gateway_pt",
            "hall": "Build_Nexus_pt",
            "defence": "Build_PhotonCannon_pt",
            "defence_needs": "Build_Forge_pt",
        },
    ),
    "zerg": RaceUnits(
        worker="Zerg.Drone",
        hall="Zerg.Hatchery",
        halls=("Zerg.Hatchery", "Zerg.Lair", "Zerg.Hive"),
        supply="Zerg.Overlord",
        production="Zerg.SpawningPool",
        production_cost=200,
        most_production=1,
        soldier="Zerg.Zergling",
        soldier_cost=50,
        soldiers_from="Zerg.Larva",
        workers_from="Zerg.Larva",
        near="creep",
        defence="Zerg.SpineCrawler",
        defence_needs="Zerg.SpawningPool",
        functions={
            "worker": "Train_Drone_quick",
            "soldier": "Train_Zergling_quick",
            "supply": "Train_Overlord_quick",
            "production": "Build_SpawningPool_pt",
            "hall": "Build_Hatchery_pt",
            "defence": "Build_SpineCrawler_pt",
            "defence_needs": "Build_SpawningPool_pt",
        },
    ),
}
# Minerals.
HALL_COST = {"terran": 400, "protoss": 400, "zerg": 300}

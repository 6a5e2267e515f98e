"""What the scripted opponents want (their styles) and what each race calls it (its plan)."""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Style:
    """An idea of how to win.

    workers: to have before only soldiers are made; bases: town halls.
    production: buildings that train soldiers.
    attack_at: soldiers with which the attack begins; it is called off at a third of that.
    defences: buildings that shoot, where the race has one without gas.
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
class Plan:
    """A race's words for the same things; unit names as in `vocab`, costs in minerals.

    soldiers_from: what trains soldiers: a building, or larva.
    per_soldier: soldiers that one order makes.
    near: what a building must stand close to: "" nothing, "pylon", or "creep".
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


PLANS = {
    "terran": Plan(
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
    "protoss": Plan(
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
    "zerg": Plan(
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
HALL_COST = {"terran": 400, "protoss": 400, "zerg": 300}

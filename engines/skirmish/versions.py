"""The game versions that Skirmish can report: 4.8.2 to 4.9.2, as in pysc2's table.

In: nothing. Out: `VERSIONS`. They share one replay protocol and one set of unit and ability ids,
so a version is only a number, a build and a data version.
"""

import dataclasses


@dataclasses.dataclass(frozen=True, kw_only=True)
class Version:
    """One game version.

    Attributes:
        number: such as "4.9.2".
        base_build: the build that replays of this version need.
        data_version: 32 upper-case hex digits.
    """

    number: str
    base_build: int
    data_version: str

    @property
    def game_version(self) -> str:
        """The version with its build, as in replays and pings: "4.9.2.74741"."""
        return f"{self.number}.{self.base_build}"

    @property
    def directory(self) -> str:
        """The name of its folder in an installation's `Versions`."""
        return f"Base{self.base_build}"


VERSIONS = tuple(
    Version(number=number, base_build=build, data_version=data)
    for number, build, data in (
        ("4.8.2", 71663, "FE90C92716FC6F8F04B74268EC369FA5"),
        ("4.8.3", 72282, "0F14399BBD0BA528355FF4A8211F845B"),
        ("4.8.4", 73286, "CD040C0675FD986ED37A4CA3C88C8EB5"),
        ("4.8.6", 73620, "AA18FEAD6573C79EF707DF44ABF1BE61"),
        ("4.9.0", 74071, "70C74A2DCA8A0D8E7AE8647CAC68ACCA"),
        ("4.9.1", 74456, "218CB2271D4E2FA083470D30B1A05F02"),
        ("4.9.2", 74741, "614480EF79264B5BD084E57F912172FF"),
    )
)
LATEST = VERSIONS[-1]


def by_build(base_build: int) -> Version:
    """Returns the version with this base build. Raises KeyError if there is none."""
    return {version.base_build: version for version in VERSIONS}[base_build]


def by_number(number: str) -> Version:
    """Returns the version with this number, such as "4.9.2". Raises KeyError if there is none."""
    return {version.number: version for version in VERSIONS}[number]

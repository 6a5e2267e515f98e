"""The options of commands that read replay packs: the password, and Blizzard's license.

In: a command's parser, or a group of it. Out: the options, declared there. Must not know what the
command does with packs.
"""

import argparse

from starmill.schema.card import BLIZZARD_LICENSE


def add_password(parser: argparse._ActionsContainer) -> None:
    """Declares --pack-password."""
    parser.add_argument(
        "--pack-password",
        metavar="SOURCE",
        help="password of encrypted zip packs, better as env:NAME or file:PATH",
    )


def add_license(parser: argparse._ActionsContainer) -> None:
    """Declares --accept-license."""
    parser.add_argument(
        "--accept-license",
        action="store_true",
        help=f"you accept Blizzard's AI and machine learning license: {BLIZZARD_LICENSE}",
    )

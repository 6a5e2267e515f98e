"""Ports for the processes that the tests start, and clients that share a game."""

import socket

import pytest

from tests.factories import games


@pytest.fixture
def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def linked_clients(free_port):
    """Two clients that play one game against each other."""
    host, guest = games.linked(free_port)
    yield host, guest
    host.session.close()
    guest.session.close()

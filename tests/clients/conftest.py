"""A bench for all tests of one run, and servers that are ended with their test."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from support.bench import Bench  # noqa: E402
from support.raw import Client, Shared  # noqa: E402


@pytest.fixture(scope="session")
def bench():
    made = Bench()
    yield made
    Shared.end()
    made.close()


@pytest.fixture(autouse=True)
def no_leftovers():
    """A test that fails half-way leaves no server that would hold the port."""
    before = list(Client.running)
    yield
    for client in [c for c in Client.running if c not in before and c is not Shared.client]:
        client.process.kill()
        client.end()


@pytest.fixture
def homed(bench):
    """A server that is referenced and released, shared with other tests."""
    return Shared.homed(bench)

"""The contract's fixtures: a namespace of the emulator."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from emulators.eventhubs.server import EventHubsEmulator
from tests.contracts.contract_plugin import ContractPlugin
from tests.emulators.eventhubs.contract.hubs import Hubs
from tests.emulators.eventhubs.contract.known_gaps import GAPS
from tests.emulators.eventhubs.contract.labels import CONTRACT
from tests.emulators.servicebus.conftest import Clock

KEYS = {"RootManageSharedAccessKey": "root key", "Sender": "sender key", "Listener": "listener key"}
RIGHTS = {"Sender": ["Send"], "Listener": ["Listen"]}


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ContractPlugin(CONTRACT, GAPS, None, lambda test: (test.name, test.originalname)))


@pytest.fixture(scope="session")
def idle() -> Clock:
    """By which links are idle."""
    return Clock()


@pytest.fixture(scope="session")
def hub_emulator(idle: Clock) -> Iterator[EventHubsEmulator]:
    with EventHubsEmulator(keys=KEYS, rights=RIGHTS, monotonic=lambda: time.monotonic() + idle.offset) as running:
        yield running


@pytest.fixture
def hubs(hub_emulator: EventHubsEmulator) -> Iterator[Hubs]:
    made = Hubs(hub_emulator)
    yield made
    made.close()

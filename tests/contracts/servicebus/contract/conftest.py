"""The contract's fixtures: a namespace (our emulator, or DSTREAM_TEST_SERVICEBUS).

DSTREAM_TEST_SERVICEBUS: a connection string with the Manage right, of a namespace on Azure or of Microsoft's emulator;
DSTREAM_TEST_SERVICEBUS_MANAGEMENT: host:port of an emulator's management API.
"""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Iterator

import pytest

from emulators.servicebus.server import ServiceBusEmulator
from tests.contracts.contract_plugin import ContractPlugin
from tests.contracts.servicebus.conftest import Clock
from tests.contracts.servicebus.contract.known_gaps import GAPS
from tests.contracts.servicebus.contract.labels import CONTRACT
from tests.contracts.servicebus.contract.namespace import Namespace

REAL = os.environ.get("DSTREAM_TEST_SERVICEBUS", "").strip()
MANAGEMENT = os.environ.get("DSTREAM_TEST_SERVICEBUS_MANAGEMENT", "").strip() or None


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ContractPlugin(CONTRACT, GAPS, "a real namespace" if REAL else None, names_of))


def names_of(test: pytest.Function) -> tuple[str, ...]:
    """name[case], and the name alone."""
    return test.name, test.originalname


@pytest.fixture(scope="session")
def clock() -> Clock:
    """The emulator's clock; moved through `Namespace.let_pass`."""
    return Clock()


@pytest.fixture(scope="session")
def emulator(clock: Clock) -> Iterator[ServiceBusEmulator]:
    """Ours. For the namespace, and for tests marked `emulator_only`."""
    with ServiceBusEmulator(
        keys={"RootManageSharedAccessKey": "root key", "Sender": "sender key", "Listener": "listener key"},
        rights={"Sender": ["Send"], "Listener": ["Listen"]},
        clock=clock,
    ) as running:
        yield running


@pytest.fixture(scope="session")
def shared_namespace(request: pytest.FixtureRequest, impatient_client: None) -> Iterator[Namespace]:
    if REAL:
        made = Namespace(REAL, MANAGEMENT, lambda duration: time.sleep(duration.total_seconds()), real=True)
    else:
        emulator, clock = request.getfixturevalue("emulator"), request.getfixturevalue("clock")
        made = Namespace(emulator.connection_string, f"127.0.0.1:{emulator.http_port}", clock.advance, False, clock)
    yield made
    made.close()
    # The SDK forgets the socket of a connection that failed or was refused: let none outlive the contract.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def namespace(shared_namespace: Namespace) -> Iterator[Namespace]:
    """The namespace; the test's senders and receivers are closed behind it."""
    yield shared_namespace
    shared_namespace.close_handlers()

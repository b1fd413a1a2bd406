"""The contract's fixtures: a namespace (our emulator, or DSTREAM_TEST_SERVICEBUS).

DSTREAM_TEST_SERVICEBUS: a connection string with the Manage right, of a namespace on Azure or of Microsoft's emulator;
DSTREAM_TEST_SERVICEBUS_MANAGEMENT: host:port of an emulator's management API.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from azure.servicebus import _base_handler
from azure.servicebus.management import _shared_key_policy

from emulators.servicebus.server import ServiceBusEmulator
from tests.contracts.contract_plugin import ContractPlugin
from tests.emulators.servicebus.conftest import Clock, forget_sockets
from tests.emulators.servicebus.contract.known_gaps import GAPS
from tests.emulators.servicebus.contract.labels import CONTRACT
from tests.emulators.servicebus.contract.namespace import Namespace

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


class ServiceTime:
    """The time module with the service's clock, so many seconds ahead."""

    def __init__(self, clock: Clock, ahead: float) -> None:
        self._clock = clock
        self._ahead = ahead

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return self._clock() + self._ahead


@contextmanager
def tokens_by(clock: Clock) -> Iterator[None]:
    """The client's tokens are good for an hour of the service's time, however far that has been moved.

    The administration client keeps its token until a minute after it expired; here it makes another a minute before.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_base_handler, "time", ServiceTime(clock, 0))
        patch.setattr(_shared_key_policy, "time", ServiceTime(clock, 120))
        yield


@pytest.fixture(scope="session")
def shared_namespace(request: pytest.FixtureRequest, clock: Clock, impatient_client: None) -> Iterator[Namespace]:
    if REAL:
        made = Namespace(REAL, MANAGEMENT, lambda duration: time.sleep(duration.total_seconds()), real=True)
    else:
        emulator = request.getfixturevalue("emulator")
        made = Namespace(emulator.connection_string, f"127.0.0.1:{emulator.http_port}", clock.advance, False, clock)
    yield made
    with tokens_by(clock):
        made.close()
    forget_sockets()


@pytest.fixture
def namespace(shared_namespace: Namespace, clock: Clock) -> Iterator[Namespace]:
    """The namespace; the test's senders and receivers are closed behind it."""
    with tokens_by(clock):
        yield shared_namespace
    shared_namespace.close_handlers()


class Alone(NamedTuple):
    """An emulator of the test's own, whose time and connections are nobody else's. `idle`: the clock of what is idle."""

    namespace: Namespace
    emulator: ServiceBusEmulator
    clock: Clock
    idle: Clock


@pytest.fixture
def alone(impatient_client: None) -> Iterator[Alone]:
    """For tests marked `emulator_only`."""
    clock, idle = Clock(), Clock()
    with ServiceBusEmulator(clock=clock, monotonic=lambda: time.monotonic() + idle.offset) as emulator:
        made = Namespace(emulator.connection_string, f"127.0.0.1:{emulator.http_port}", clock.advance, real=False)
        yield Alone(made, emulator, clock, idle)
        clock.advance(timedelta(seconds=-clock.offset))  # the tokens with which it is cleaned up are of today
        made.close()
    forget_sockets()

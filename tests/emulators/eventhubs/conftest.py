"""A namespace to try with Azure's own client."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from azure.eventhub import _client_base, _producer
from azure.eventhub._pyamqp import client

from tests.emulators.servicebus.conftest import Impatient, forget_sockets


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The SDK forgets the socket of a connection that failed: whichever test the collector finds it in is not to blame."""
    for test in items:
        if test.path.is_relative_to(Path(__file__).parent):
            test.add_marker(pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning"))


@pytest.fixture(autouse=True, scope="session")
def impatient_client() -> Iterator[None]:
    """Opening takes the SDK half a second of sleeps of 50 ms."""
    assert hasattr(_producer, "EventHubProducer")
    assert time.time() > 0
    with pytest.MonkeyPatch.context() as patch:
        for module in (_client_base, client):
            patch.setattr(module, "time", Impatient())
        yield
    forget_sockets()

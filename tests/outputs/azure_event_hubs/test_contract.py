"""What every output promises, of Event Hubs: the emulator at one end, azure-eventhub at both."""

from __future__ import annotations

import pytest

from tests.outputs.azure_event_hubs.world import HubsWorld
from tests.outputs.contract.cases import OutputContract

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <s:ResourceWarning")
"""The SDK forgets the socket of a connection that failed."""


class TestAzureEventHubs(OutputContract):
    world_type = HubsWorld

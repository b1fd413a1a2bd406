"""The type of a block chooses the adapter; a client library that is missing is named with the command that installs it."""

from __future__ import annotations

import sys

import pytest

from common.errors import ConfigurationError
from router.outputs import registry
from router.outputs.azure_service_bus.settings import ServiceBusOutput


@pytest.fixture
def settings() -> ServiceBusOutput:
    return ServiceBusOutput(namespace="ns.servicebus.windows.net", name="far")


def test_the_settings_choose_the_adapter(settings: ServiceBusOutput) -> None:
    output = registry.output_of(settings)
    bus = registry.bus_behind(output)
    assert bus is not None
    assert bus.hostname == "ns.servicebus.windows.net"
    output.close()


def test_reading_settings_imports_no_client() -> None:
    import subprocess

    code = (
        "import sys, router.settings; "
        "print([n for n in ('azure.servicebus', 'confluent_kafka', 'nats', 'httpx', 'psycopg', 'pyarrow', 'azure.eventhub') if n in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_missing_library_is_named_with_its_remedy(settings: ServiceBusOutput) -> None:
    with pytest.raises(ConfigurationError) as raised, registry.installed(settings):
        raise ModuleNotFoundError("No module named 'confluent_kafka.admin'", name="confluent_kafka.admin")
    assert 'type "azure_service_bus" needs the library confluent_kafka, which is not installed' in str(raised.value)
    assert raised.value.hint == "pip install 'dstream-cdc[azure_service_bus]'"


def test_a_missing_module_of_our_own_is_a_defect(settings: ServiceBusOutput) -> None:
    with pytest.raises(ModuleNotFoundError), registry.installed(settings):
        raise ModuleNotFoundError("No module named 'router.nothing'", name="router.nothing")

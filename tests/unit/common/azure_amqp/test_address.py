"""Connection strings: every part checked, no secret shown."""

from __future__ import annotations

import pytest

from common.azure_amqp.address import Proxy, read_address
from common.errors import ConfigurationError
from common.servicebus.namespace import ServiceBus

SECRET = "c2VjcmV0LXZhbHVlKys9="
WHOLE = f"Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=policy;SharedAccessKey={SECRET}"
LOCAL = WHOLE.replace("ns.servicebus.windows.net", "localhost")


def test_a_whole_string_is_read_in_any_case_and_with_spaces() -> None:
    text = f" endpoint=sb://ns.servicebus.windows.net/ ; SHAREDACCESSKEYNAME=policy; SharedAccessKey={SECRET} ;"
    address = read_address(text)
    assert (address.host, address.emulator, address.entity_path) == ("ns.servicebus.windows.net", False, None)
    assert address.connection_string is not None
    assert f"SharedAccessKey={SECRET}" in address.connection_string


@pytest.mark.parametrize("spelling", ["true", "True", "TRUE"])
def test_the_emulator_flag_is_understood_however_it_is_spelled(spelling: str) -> None:
    address = read_address(f"{LOCAL};UseDevelopmentEmulator={spelling}")
    assert address.emulator
    assert address.connection_string is not None
    assert "UseDevelopmentEmulator=true" in address.connection_string


@pytest.mark.parametrize(
    "host",
    [
        "localhost:5673",
        "127.0.0.2",
        "[::1]:5672",
        "10.1.2.3",
        "192.168.7.7",
        "[fd00::1]",
        "emulator",
        "host.docker.internal",
        "bus.shop.svc",
        "bus.shop.svc.cluster.local",
        "BUS.local.",
    ],
)
def test_an_emulator_is_on_this_machine_or_in_a_private_network(host: str) -> None:
    assert read_address(f"{WHOLE.replace('ns.servicebus.windows.net', host)};UseDevelopmentEmulator=true").emulator


@pytest.mark.parametrize("host", ["ns.servicebus.windows.net", "8.8.8.8", "[2001:4860:4860::8888]", "emulator.example"])
def test_no_key_goes_in_clear_text_to_anybody_else(host: str) -> None:
    with pytest.raises(ConfigurationError, match="UseDevelopmentEmulator=true, which sends everything in clear text"):
        read_address(f"{WHOLE.replace('ns.servicebus.windows.net', host)};UseDevelopmentEmulator=true")


def test_the_port_is_part_of_the_host_and_not_of_its_name() -> None:
    address = read_address(
        f"{WHOLE.replace('ns.servicebus.windows.net', '127.0.0.1:5673')};UseDevelopmentEmulator=true"
    )
    assert (address.host, address.hostname) == ("127.0.0.1:5673", "127.0.0.1")


@pytest.mark.parametrize("host", ["ns.servicebus.windows.net:5672", "localhost:5672", "[::1]:443"])
def test_a_port_that_nobody_would_go_by_is_refused(host: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"has port \d+ .*take the port out, or add UseDevelopmentEmulator=true"
    ):
        read_address(WHOLE.replace("ns.servicebus.windows.net", host))


def test_the_port_that_a_namespace_has_may_be_written() -> None:
    assert read_address(WHOLE.replace(".net/", ".net:5671/")).hostname == "ns.servicebus.windows.net"


@pytest.mark.parametrize(
    "endpoint", ["sb://ns:99999/", "sb://[::1/", "sb:///", "sb://:5671/", "ns.servicebus.windows.net"]
)
def test_an_endpoint_that_is_no_address_is_told(endpoint: str) -> None:
    with pytest.raises(ConfigurationError, match="has an Endpoint that is not an address"):
        read_address(WHOLE.replace("sb://ns.servicebus.windows.net/", endpoint))


@pytest.mark.parametrize("missing", ["Endpoint", "SharedAccessKeyName", "SharedAccessKey"])
def test_a_missing_part_is_named(missing: str) -> None:
    text = ";".join(part for part in WHOLE.split(";") if not part.startswith(f"{missing}="))
    with pytest.raises(ConfigurationError) as refused:
        read_address(text)
    assert refused.value.problems == (f"the Service Bus connection string has no {missing}",)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_address("")
    assert len(refused.value.problems) == 3


@pytest.mark.parametrize(
    "text",
    [
        WHOLE.replace("sb://", ""),
        f"{WHOLE};Nonsense={SECRET}",
        SECRET,
        f"{WHOLE};SharedAccessSignature=sig{SECRET}",
        WHOLE.replace("SharedAccessKeyName=policy;", ""),
    ],
)
def test_no_error_shows_the_secret(text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_address(text)
    assert SECRET not in str(refused.value)
    assert SECRET not in repr(refused.value)


def test_a_signature_stands_for_policy_and_key() -> None:
    read_address(
        f"Endpoint=sb://ns.servicebus.windows.net;SharedAccessSignature=SharedAccessSignature sr=x&sig={SECRET}"
    )


def test_no_repr_shows_the_secret() -> None:
    bus = ServiceBus.from_connection_string(WHOLE)
    for shown in (repr(bus), repr(bus.address), str(bus.address), repr(bus.sender("topic"))):
        assert SECRET not in shown


def test_who_is_refused_is_named_without_a_secret() -> None:
    signed = f"Endpoint=sb://ns;SharedAccessSignature=SharedAccessSignature sr=x&sig={SECRET}"
    named = [read_address(text).credential.name for text in (WHOLE, signed)]
    assert named == ["the policy policy of ns.servicebus.windows.net", "the SharedAccessSignature of ns"]


def test_a_string_for_one_entity_is_refused_for_another() -> None:
    bus = ServiceBus.from_connection_string(f"{WHOLE};EntityPath=ingest-queue")
    bus.sender("Ingest-Queue")
    with pytest.raises(ConfigurationError, match="ingest-queue alone"):
        bus.sender("other")
    with pytest.raises(ConfigurationError, match="ingest-queue alone"):
        bus.receivers("other", sessions=True, prefetch=1)


def test_a_proxy_is_read_with_its_login_and_shows_no_password() -> None:
    proxy = Proxy.read("http://corp%20user:p%40ss@proxy.corp:3128/")
    assert (proxy.host, proxy.port, proxy.user, proxy.password) == ("proxy.corp", 3128, "corp user", "p@ss")
    assert proxy.url() == "http://corp%20user:p%40ss@proxy.corp:3128"
    assert Proxy.of_sdk(proxy.for_sdk()) == proxy
    assert "p@ss" not in f"{proxy} {proxy!r}"


@pytest.mark.parametrize("url", [f"socks5://x:{SECRET}@h:1", "http://h", "h:3128", "http://h:99999", "http://h:1/p"])
def test_what_is_no_http_proxy_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ValueError) as refused:
        Proxy.read(url)
    assert SECRET not in str(refused.value)

"""The block of a webhook: what it refuses, and the address of each table."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from common.names import Origin, TableName
from router.outputs.port import Stream
from router.outputs.webhook.plan import planned
from router.outputs.webhook.settings import WebhookSettings

ORIGIN = Origin("server", "shop")
SIGNING = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def made(**given: Any) -> WebhookSettings:
    return WebhookSettings(**{"type": "webhook", "url": "https://h.example/in/{schema}/{table}", **given})


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("h.example/in", "begins with https"),
        ("ftp://h.example/in", "begins with https"),
        ("https://", "begins with https"),
        ("https://user:secret-7@h.example/", "must not hold a user"),
        ("https://h.example/?code=secret-7", "the setting query"),
        ("https://h.example/#a", "the setting query"),
        ("https://{table}.example/", "must name one host"),
        ("https://h.example:port/", "is not an address"),
        ("https://h.example/ü", "ASCII"),
        ("https://h.example/a b", "ASCII"),
        ("https://h.example/{column}", "not known"),
    ],
)
def test_an_address_that_cannot_be_is_refused(url: str, complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint) as raised:
        made(url=url)
    assert "secret-7" not in str(raised.value)


@pytest.mark.parametrize(
    "given",
    [
        {"bearer_token": SecretStr("t"), "username": "u", "password": SecretStr("p")},
        {"username": "u"},
        {"password": SecretStr("p")},
        {"client_key": "key.pem"},
        {"other_signing_secret": SecretStr(SIGNING)},
        {"signing_secret": SecretStr("not-a-secret")},
        {"headers": {"Webhook-Id": SecretStr("1")}},
        {"headers": {"a b": SecretStr("1")}},
        {"headers": {"a": SecretStr("1\r\nb: 2")}},
        {"bearer_token": SecretStr("a\nb")},
        {"refused_statuses": (500,)},
        {"proxy": SecretStr("socks5://h")},
        {"bearer_token": SecretStr("secret-7 ")},
        {"headers": {"a": SecretStr("\tsecret-7")}},
        {"proxy": SecretStr("http://u:secret-7#cret@h:1")},
        {"proxy": SecretStr("http://u:secret-7@h:99999")},
        {"proxy": SecretStr("http://u:secret-7/x@h:1")},
        {"proxy": SecretStr("http://u:secret-7?x@h:1")},
        {"proxy": SecretStr("http://u:secret-7@h:port")},
        {"proxy": SecretStr("http://u:secret-7\u2100@h:1")},
        {"proxy": SecretStr("http://[secret-7")},
    ],
)
def test_settings_that_contradict_or_could_do_harm_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as raised:
        made(**given)
    assert "secret-7" not in str(raised.value)


def test_a_proxy_with_a_password_is_taken() -> None:
    assert made(proxy=SecretStr("http://u:p%23w@h:3128/")).proxy is not None


def test_each_table_has_its_address_and_names_are_escaped_as_in_a_url() -> None:
    place = made().place(ORIGIN, "t", TableName("sales", "Order/Details ü?"))
    assert place == "https://h.example/in/sales/Order%2FDetails%20%C3%BC%3F"


def test_a_route_may_name_an_address_or_a_path_beside_it() -> None:
    table = TableName("dbo", "Persons")
    assert made().place(ORIGIN, "t", table, instead="people") == "https://h.example/in/{schema}/people".replace(
        "{schema}", "dbo"
    )
    assert made().place(ORIGIN, "t", table, instead="https://other.example/x") == "https://other.example/x"


def test_a_stream_without_a_table_has_an_address_too() -> None:
    assert made().place(ORIGIN, "side.topic", None) == "https://h.example/in/-/side.topic"
    assert made(url="https://h.example/in").place(ORIGIN, "side.topic", None) == "https://h.example/in"


def test_no_secret_is_in_the_repr_or_the_plan() -> None:
    settings = made(
        signing_secret=SecretStr(SIGNING),
        bearer_token=SecretStr("token-7f3a9c"),
        query=SecretStr("code=query-51b2d8"),
        headers={"X-Key": SecretStr("header-90e1f4")},
        proxy=SecretStr("http://u:proxy-1a2b@h:1"),
    )
    stream = Stream("t", TableName("dbo", "Persons"), "https://h.example/in/dbo/Persons")
    text = f"{settings!r}{settings}{planned(settings, [stream], 'verify')}"
    assert [each for each in (SIGNING, "7f3a9c", "51b2d8", "90e1f4", "1a2b") if each in text] == []
    assert planned(settings, [stream], "create").creates == ()

"""The block of NATS: what it refuses, the subject and stream of each table, and the plan."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from common.names import Origin, TableName
from router.outputs.nats.plan import planned
from router.outputs.nats.settings import NatsSettings
from router.outputs.nats.streams import needed, uncovered
from router.outputs.port import Stream

ORIGIN = Origin("server", "shop")


def made(**given: Any) -> NatsSettings:
    return NatsSettings(**{"type": "nats", "servers": ("nats://h:4222",), **given})


@pytest.mark.parametrize(
    "given",
    [
        {"servers": ()},
        {"servers": ("h:4222",)},
        {"servers": ("nats://user:secret-7@h:4222",)},
        {"servers": ("nats://h:4222", "tls://h2:4222")},
        {"servers": ("nats://h:port",)},
        {"subject": "a..b"},
        {"subject": "a.*"},
        {"subject": "a.>"},
        {"subject": "$JS.API"},
        {"subject": "a b"},
        {"stream": "a.b"},
        {"stream": "{table}"},
        {"user": "u"},
        {"password": SecretStr("p")},
        {"token": SecretStr("t"), "user": "u", "password": SecretStr("p")},
        {"nkey_seed": SecretStr("SUABC")},
        {"client_key": "k"},
        {"max_age": timedelta(minutes=1)},
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError) as raised:
        made(**given)
    assert "secret-7" not in str(raised.value)


@pytest.mark.parametrize(
    ("table", "subject"),
    [
        (TableName("dbo", "Persons"), "server.shop.dbo.Persons"),
        (TableName("sales", "Order Details"), "server.shop.sales.Order_x0020_Details"),
        (TableName("a.b", "*>"), "server.shop.a_x002e_b._x002a__x003e_"),
        (TableName("a", "b.x"), "server.shop.a.b_x002e_x"),
        (TableName("a", "_x002e_"), "server.shop.a._x005f_x002e_"),
    ],
)
def test_each_name_is_one_token(table: TableName, subject: str) -> None:
    assert made().place(ORIGIN, "t", table) == subject


def test_the_name_of_a_stream_keeps_its_dots() -> None:
    assert made().place(ORIGIN, "server.shop.side", None) == "server.shop.side"
    assert made(subject="cdc.{topic}").place(ORIGIN, "a.b c.events", TableName("dbo", "P")) == "cdc.a.b_x0020_c.events"


def test_a_stream_for_each_table() -> None:
    assert made().stream_of("a.b") == "dstream"
    assert made(stream="cdc_{subject}").stream_of("a.b.c") == "cdc_a=b=c"
    assert len(made(stream="cdc_{subject}").stream_of("a." * 200 + "b")) <= 200


@pytest.mark.parametrize(
    ("taken", "left"),
    [
        (["a.b"], ["a.b.c", "a"]),
        (["a.*"], ["a.b.c", "a"]),
        (["a.>"], ["a"]),
        ([">"], []),
        (["*.b", "a.b.*"], ["a"]),
        ([], ["a.b", "a.b.c", "a"]),
    ],
)
def test_patterns_of_a_stream(taken: list[str], left: list[str]) -> None:
    assert uncovered(["a.b", "a.b.c", "a"], taken) == left


def test_the_plan_names_streams_rights_and_the_command() -> None:
    streams = [Stream("1", TableName("dbo", "A"), "s.d.dbo.A"), Stream("2", TableName("dbo", "B"), "s.d.dbo.B")]
    settings = made(user="u", password=SecretStr("password-7f3a9c"), replicas=3)
    assert needed(settings, streams) == {"dstream": ["s.d.dbo.A", "s.d.dbo.B"]}
    plan = planned(settings, streams, "create")
    assert plan.creates == ["stream dstream with subjects s.d.dbo.A, s.d.dbo.B"]
    assert "publish s.d.dbo.A" in plan.needs
    assert "publish $JS.API.STREAM.CREATE.dstream" in plan.needs
    assert "--subjects s.d.dbo.A,s.d.dbo.B --storage file --replicas 3" in plan.script
    assert "7f3a9c" not in f"{plan}{settings!r}"
    assert planned(settings, streams, "none").creates == ()

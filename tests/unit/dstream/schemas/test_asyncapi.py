from __future__ import annotations

import json
from typing import Any

from common.names import TRANSACTIONS, TableName
from dstream.schemas.asyncapi import Channel, Output, document
from dstream.schemas.envelopes import ENVELOPES, body
from tests.unit.dstream.schemas.test_envelopes import described
from tests.unit.ingester.task.test_encode import ORIGIN, change

HOST = "shop.servicebus.windows.net"


def channel(table: TableName, version: str) -> Channel:
    return Channel(ORIGIN.topic(table), described(table, version))


CHANNELS = tuple(
    channel(table, change(name).schema_version)
    for table, name in (
        (TableName("dbo", "Persons"), "insert"),
        (TableName("sales", "Orders"), "delete_in_another_schema"),
        (TRANSACTIONS, "transaction_begin"),
    )
)


def written(envelope: str = "dstream", *, binary: bool = False) -> Any:
    return document(CHANNELS, Output(HOST, envelope, binary, "1.2.3"))


def test_every_topic_has_a_channel_with_its_message_and_is_sent_to() -> None:
    made = written()
    assert (made["asyncapi"], made["info"]["version"]) == ("3.0.0", "1.2.3")
    assert [each["address"] for each in made["channels"].values()] == [each.topic for each in CHANNELS]
    assert list(made["channels"]) == ["dbo_Persons", "sales_Orders", "cdc_transactions"]
    assert made["servers"]["serviceBus"]["host"] == HOST
    assert [each["channel"]["$ref"] for each in made["operations"].values()] == [
        f"#/channels/{name}" for name in made["channels"]
    ]
    assert {each["action"] for each in made["operations"].values()} == {"send"}
    for name, each in made["channels"].items():
        assert each["messages"]["change"]["$ref"] == f"#/components/messages/{name}"
        assert name in made["components"]["messages"]


def test_a_message_has_the_properties_of_a_change_and_the_schema_of_its_envelope() -> None:
    held = dict(change_properties())
    for envelope in ENVELOPES:
        message = written(envelope)["components"]["messages"]["dbo_Persons"]
        assert message["payload"]["schema"] == body(CHANNELS[0].described, envelope)
        headers = message["headers"]["properties"]
        assert set(headers) >= set(held)
        assert "oversize" not in headers
        assert all(headers[name].get("const", value) == value for name, value in held.items())


def change_properties() -> dict[str, Any]:
    from tests.unit.ingester.task.test_encode import ENCODER

    return dict(ENCODER.message(change("insert")).application_properties)


def test_cloudevents_say_their_content_type_and_binary_ones_are_native() -> None:
    structured = written("cloudevents")["components"]["messages"]["dbo_Persons"]
    binary = written("cloudevents", binary=True)["components"]["messages"]["dbo_Persons"]
    assert structured["contentType"] == "application/cloudevents+json"
    assert binary["contentType"] == "application/json"
    assert binary["payload"]["schema"] == body(CHANNELS[0].described, "dstream")


def test_names_that_would_be_the_same_key_are_told_apart() -> None:
    odd = [channel(TableName("dbo", "Persons"), "0" * 12) for _ in range(2)]
    made: Any = document(odd, Output(HOST, "dstream"))
    assert list(made["channels"]) == ["dbo_Persons", "dbo_Persons_2"]


def test_no_reference_leads_into_a_payload_nor_out_of_the_document() -> None:
    made = written()

    def found(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if "$ref" in value else []
            return own + [ref for each in value.values() for ref in found(each)]
        return [ref for each in value for ref in found(each)] if isinstance(value, list) else []

    for ref in found(made):
        at = made
        for part in ref.removeprefix("#/").split("/"):
            at = at[part]
    assert json.loads(json.dumps(made)) == made

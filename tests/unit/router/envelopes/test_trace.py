"""The trace context of a change in every envelope, and in the headers of a webhook: unchanged, and under the names that tracers look for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from common.bus.packing import packed, unpack
from common.message import Message
from router.outputs.kafka.records import record
from router.outputs.lines import line
from router.outputs.nats.messages import outgoing
from router.outputs.webhook.requests import of_many, of_one
from tests.unit.router.envelopes.golden import FORMS, converter, native

GIVEN = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "vendor=1"}


def traced(number: int = 0) -> Message:
    made = native("insert")
    held = {**made.application_properties, **GIVEN}
    return replace(made, application_properties=held, message_id=f"{made.message_id}{number or ''}")


@pytest.mark.parametrize("form", FORMS)
def test_an_envelope_keeps_the_context(form: str) -> None:
    for message in converter(form).converted(traced()):
        assert GIVEN.items() <= message.application_properties.items()


def test_an_event_of_cloudevents_has_the_extension_of_distributed_tracing() -> None:
    (structured,) = converter("cloudevents").converted(traced())
    assert GIVEN.items() <= json.loads(structured.body).items()
    (binary,) = converter("cloudevents_binary").converted(traced())
    assert binary.application_properties["cloudEvents:traceparent"] == GIVEN["traceparent"]


def test_packs_give_each_change_its_own_context_back() -> None:
    one, other = (
        traced(1),
        replace(traced(2), application_properties={**traced().application_properties, "tracestate": "b=2"}),
    )
    (parcel,) = packed([one, other], most=500, limit=1_000_000)
    assert unpack(parcel.message) == (one, other)


def test_headers_have_the_names_that_tracers_look_for() -> None:
    message = traced()
    assert GIVEN.items() <= of_one(message).headers.items()
    assert json.loads(of_many([message]).body)[0]["properties"]["traceparent"] == GIVEN["traceparent"]
    assert GIVEN.items() <= outgoing(message, "stream").headers.items()
    headers = dict(record(message, None).headers)
    assert headers["traceparent"] in (GIVEN["traceparent"], GIVEN["traceparent"].encode())
    assert GIVEN["traceparent"] in line(message, "message").decode()

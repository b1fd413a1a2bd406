"""A received message is read in one look: it must say what the SDK's own properties say, one by one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.amqp import AmqpAnnotatedMessage, AmqpMessageHeader, AmqpMessageProperties

from common.servicebus.wire.messages import from_sdk

WHOLE = AmqpAnnotatedMessage(
    data_body=[b"first ", b"second"],
    header=AmqpMessageHeader(time_to_live=90_000),
    properties=AmqpMessageProperties(
        message_id="é",
        group_id="session",
        subject="Insert",
        content_type="application/json",
        correlation_id="correlation",
        reply_to="back",
        reply_to_group_id="back here",
        to="there",
    ),
    annotations={"x-opt-partition-key": "session"},
    application_properties={"text": "ä", "number": 7, "flag": True},
)


def received(message: AmqpAnnotatedMessage) -> ServiceBusReceivedMessage:
    from azure.servicebus._pyamqp._encode import encode_payload
    from azure.servicebus._transport._pyamqp_transport import PyamqpTransport

    return ServiceBusReceivedMessage.from_bytes(
        bytes(encode_payload(bytearray(), PyamqpTransport.to_outgoing_amqp_message(message)))
    )


@pytest.mark.parametrize("message", [WHOLE, AmqpAnnotatedMessage(data_body=b"bare")], ids=["whole", "bare"])
def test_it_says_what_the_sdks_properties_say(message: AmqpAnnotatedMessage) -> None:
    arrived = received(message)
    read, fault = from_sdk(arrived)
    assert fault is None
    assert read.body == b"".join(arrived.body)
    for name in (
        "message_id",
        "session_id",
        "subject",
        "content_type",
        "correlation_id",
        "reply_to",
        "reply_to_session_id",
        "to",
    ):
        assert getattr(read, name) == getattr(arrived, name), name
    assert (read.partition_key, read.time_to_live) == (arrived.partition_key, arrived.time_to_live)


def test_nothing_of_a_message_is_left_out() -> None:
    read, _ = from_sdk(received(WHOLE))
    assert (read.message_id, read.session_id, read.partition_key) == ("é", "session", "session")
    assert read.time_to_live == timedelta(seconds=90)
    assert read.application_properties == {"text": "ä", "number": 7, "flag": True}

"""The Python side of messages that pass between clients: one left for the others to read, one of theirs taken.

Python's client writes moments and UUIDs in their AMQP types.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from tests.emulators.servicebus.clients.scenario import FOR_CLIENTS, LEFT

SENT: dict[str | bytes, Any] = {
    "text": "中文",
    "negative": -5,
    "double": 0.25,
    "boolean": True,
    "moment": datetime(2018, 7, 13, 13, 23, 45, 789000, UTC),
    "guid": UUID("6f9619ff-8b86-d011-b42d-00c04fc964ff"),
}


def leave(connection: str) -> None:
    """A message with a property of every kind, for the next client to read."""
    with ServiceBusClient.from_connection_string(connection) as client, client.get_queue_sender(FOR_CLIENTS) as sender:
        sender.send_messages(ServiceBusMessage(b"\x00\xff", message_id="p-1", application_properties=SENT))


def take(connection: str) -> dict[str, Any]:
    """The message that a client has left, its fields by their JavaScript names."""
    with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_receiver(LEFT, max_wait_time=5) as receiver,
    ):
        for message in receiver:
            receiver.complete_message(message)
            properties = message.application_properties or {}
            return {
                "body": b"".join(message.body).decode(),
                "messageId": message.message_id,
                "contentType": message.content_type,
                "correlationId": message.correlation_id,
                "subject": message.subject,
                "to": message.to,
                "replyTo": message.reply_to,
                "replyToSessionId": message.reply_to_session_id,
                "timeToLive": round(message.time_to_live.total_seconds() * 1000) if message.time_to_live else None,
                "applicationProperties": {_text(name): _text(value) for name, value in properties.items()},
            }
    return {}


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value

"""What an entity refuses to take in or hand out, in the service's words.

Sources: learn.microsoft.com "Service Bus messaging exceptions", "Suspend and reactivate messaging entities".
"""

from __future__ import annotations

from emulators.servicebus.amqp.values import AmqpError
from emulators.servicebus.message import Message


def require_enabled(path: str, status: str, disabling: tuple[str, ...]) -> None:
    """Raises AmqpError when the entity's status forbids."""
    if status == "Disabled" or status in disabling:
        raise AmqpError("com.microsoft:entity-disabled", f"The messaging entity '{path}' is currently {status}.")


def require_sessions(path: str, messages: list[Message]) -> None:
    """Raises AmqpError when a message has no session id."""
    if any(message.session_id is None for message in messages):
        text = f"The SessionId was not set on a message, and it cannot be sent to the entity '{path}', which requires sessions."
        raise AmqpError("amqp:not-allowed", text)


def too_large(size: int | None, limit: int) -> AmqpError:
    """The answer to a message above the entity's limit; `size` None when nobody counted to the end."""
    what = "The received message" if size is None else f"The received message (size:{size})"
    return AmqpError("amqp:link:message-size-exceeded", f"{what} exceeds the limit ({limit} bytes) of the entity.")

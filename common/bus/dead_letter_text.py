"""The texts of a dead letter in a form that every broker's client can write: limited in bytes, and always encodable. Pure."""

from __future__ import annotations

from typing import Final

MAX_REASON: Final = 256
MAX_DESCRIPTION: Final = 4_000
"""Bytes that are kept. Microsoft's .NET client refuses more than 4,096 characters of either (Azure.Messaging.ServiceBus,
Constants.MaxDeadLetterReasonLength), and the service takes 32 KB for a message's properties in all."""


def tellable(text: str, longest: int) -> str:
    """`text` in at most `longest` bytes of UTF-8. Half a surrogate pair, which JSON can hold and UTF-8 cannot, becomes its escape.

    The SDK fails to write such a half and closes the receiver, so that the message would come again for ever.
    """
    return text[:longest].encode("utf-8", "backslashreplace")[:longest].decode("utf-8", "ignore")

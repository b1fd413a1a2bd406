"""The port of an envelope: it writes a message of the ingest queue as its topic gets it. `registry.py` has the envelopes by their names.

An envelope decides about the body, the content type and properties of its own. It never changes message id, session, or the properties that
every message has: they do not depend on the envelope.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from common.message import Message


class NotNative(ValueError):
    """The message is not a change as the ingester writes it, so no envelope can be made of it. The text gives the reason."""


class Converter(Protocol):
    """Deterministic: the same message gives the same bytes, because a message that is sent again must be the same."""

    def converted(self, message: Message) -> Sequence[Message]:
        """The messages that the topic gets, at least one, in their order. The first has the id of `message`. Raises NotNative."""
        ...

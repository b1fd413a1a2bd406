"""Change -> Message (docs/messages.md), deterministic: the same change gives the same bytes and the same id, whoever encodes it and when.

Puts a message together of three parts: its identity, its body, and the application properties.
"""

from __future__ import annotations

from common.message import Message, Metadata, Property, PropertyValue
from common.names import Ordering, Origin
from common.observability.trace_context import TRACEPARENT
from ingester.change import OPERATION_NAMES, Change
from ingester.oversize import Oversized
from ingester.task.envelope import NativeEnvelope
from ingester.task.identity import Identities, Identity
from ingester.task.properties import properties


class Encoder:
    """Makes the messages of one database's changes for one queue."""

    def __init__(
        self,
        origin: Origin,
        queue: str,
        ordering: Ordering = "table",
        key_buckets: int = 64,
    ) -> None:
        """`ordering` and `key_buckets`: the queue's settings."""
        self._origin = origin
        self._identity = Identities(origin, ordering, key_buckets).of
        self._envelope = NativeEnvelope(origin, queue)

    def message(self, change: Change, identified: Identity | None = None) -> Message:
        """The message of one change. `identified`: another identity than the change's own."""
        identified = identified or self._identity(change)
        return self._message(change, identified, self._envelope.change(change, identified))

    def metadata(self, change: Change) -> Metadata:
        """What the native envelope says beside the change's values."""
        return self._envelope.metadata(change, self._identity(change))

    def stand_in(self, change: Change, what: Oversized) -> Message:
        """The message in place of a change that is too large for any: its key's values and no others."""
        identified = self._identity(change)
        body = self._envelope.stand_in(change, identified, what)
        return self._message(change, identified, body, stands_in=True)

    def _message(self, change: Change, identified: Identity, body: bytes, *, stands_in: bool = False) -> Message:
        held = properties(change, self._origin, identified)
        beside: dict[str, PropertyValue] = {}
        if stands_in:
            beside[Property.OVERSIZE] = True
        if change.set_aside is not None:
            beside[Property.SET_ASIDE] = change.set_aside
        if change.traceparent is not None:
            beside[TRACEPARENT] = change.traceparent
        return Message(
            body=body,
            message_id=identified.event_id,
            session_id=identified.session_id,
            subject=OPERATION_NAMES[change.operation],
            application_properties={**held, **beside} if beside else held,
        )

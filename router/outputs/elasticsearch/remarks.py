"""What a person must know about changes that were applied: a gap, and keys that may have changed unseen. Each is logged once for its cause."""

from __future__ import annotations

import threading
from collections.abc import Collection

import structlog

from router.outputs.elasticsearch.documents import POSITION
from router.outputs.elasticsearch.operations import Chunk
from router.outputs.rows.change import Event

log = structlog.get_logger(__name__)


class Remarks:
    """Shared by the senders of an output."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._guard = threading.Lock()
        self._said: set[tuple[str, str]] = set()

    def of(self, index: str, chunk: Chunk, accepted: Collection[int]) -> None:
        """`accepted`: the places of those messages of `chunk` that were. They do not come again, whatever became of the others."""
        for at, event in chunk.events.items():
            if at in accepted and event.operation == "Gap" and self._first(index, event.native.event_id):
                self._gap(index, event)
        for at, change in chunk.hidden.items():
            if at in accepted and self._first(index, "hidden"):
                log.warning(
                    "an update may have changed a key, and its message does not have the old one",
                    output=self._output,
                    index=index,
                    table=str(change.table),
                    effect="if it did, the document with the old key stays in the index",
                    hint="set before_images = true in the ingester's block, and take a snapshot into a new index",
                )

    def _gap(self, index: str, event: Event) -> None:
        lost = event.native.metadata.get("Gap")
        log.warning(
            "changes of a table are lost, so its index may hold rows that were deleted",
            output=self._output,
            index=index,
            table=str(event.table),
            lost=lost,
            hint=f"when the snapshot behind the gap is done, delete by query the documents whose {POSITION} is lower than {event.native.lsn}",
        )

    def _first(self, index: str, what: str) -> bool:
        with self._guard:
            if (index, what) in self._said:
                return False
            self._said.add((index, what))
            return True

"""The port of an output. `registry.py` chooses the adapter by the `type` of the block; everything else sees only this page.

What every output promises: a `send` that returns was accepted, durably as far as its server promises that, in the order of each session. What
was not accepted is sent again with the same id. An output settles nothing and never sees the ingest queue.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from common.bus.ports import OpenableSender, Provision
from common.check import Finding
from common.names import TableName


@dataclass(frozen=True, slots=True)
class Stream:
    """The changes of one table on their way to one place of an output.

    `topic`: the stream's name, which messages have as the property `destination`, in lower case. `table`: None where no configured table has it
    (a side topic). `destination`: the place, in the output's own spelling: a topic, a subject, a table, an index, a folder.
    """

    topic: str
    table: TableName | None
    destination: str


@dataclass(frozen=True, slots=True)
class Planned:
    """What `dstream plan` says of one output. Pure: nothing was looked up.

    `creates`: what a start with `provision = "create"` makes, a line each. `needs`: the least rights, a line each. `script`: commands or
    statements of the server's own tools that do both, for a person who may; without secrets.
    """

    creates: Sequence[str]
    needs: Sequence[str]
    script: str


class Output(Protocol):
    """One output, with what its senders share. Callable from any thread. Making one opens nothing."""

    def sender(self, stream: Stream) -> OpenableSender:
        """A sender, not opened yet. One thread at a time uses it, not always the same; `open` after `close` must work.

        Its `send` raises as `common.bus.ports.Sender` does: SendInterrupted (with the places known to be accepted; `throttled` when the server was
        busy and took none of the others), MessageRefused or one of its kinds for a message that the server will never take, EntityMissing or
        EntityUnavailable for a missing place or right. Every wait has a deadline that really ends it, and `left` shortens it.
        """
        ...

    def provision(
        self, streams: Sequence[Stream], *, how: Provision, stop: threading.Event | None = None
    ) -> Collection[str]:
        """Create or check the places of `streams`, depending on `how`; "none" returns at once. Safe to repeat, and beside another router.

        Returns the `topic` of each stream whose place could not be provided now, each logged. Raises PermanentError (a missing right; one error
        names all places that are missing or unfit), TransientError (not reachable, busy) and, once `stop` is set, Stopped.
        """
        ...

    def findings(self, streams: Sequence[Stream], *, provision: Provision) -> Iterator[Finding]:
        """For `dstream check`: the server, the right to send, and each place. Sends nothing. Raises DStreamError when it cannot be reached."""
        ...

    def cut_calls(self) -> None:
        """End every call that this process has in flight, from any thread: it raises TransientError."""
        ...

    def close(self) -> None:
        """Release what senders share. Waits a few seconds at most, and never raises."""
        ...

"""The envelope of `dstream provider`, which common/changes.py writes, with one change in each message. Pure.

Most of the native metadata has no place there. What is not about a row has no row: its metadata stands in `data`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from common.changes import change, envelope
from common.message import Message
from router.envelopes.native import read


class Changes:
    """A batch of one. `poll_interval` is null: the router polls nothing."""

    def converted(self, message: Message) -> Sequence[Message]:
        native = read(message.body)
        table = f"{native.schema}.{native.table}"
        made = change(
            table_name=table,
            operation=native.operation,
            data=(native.described if native.operation_id < 0 else native.data).encode(),
            timestamp=native.commit_time,
            lsn=native.lsn,
            event_id=native.event_id,
            before=None if native.before is None else native.before.encode(),
        )
        body = envelope(table_name=table, server_name=native.server, changes=[made], poll_interval=None)
        return (replace(message, body=body),)

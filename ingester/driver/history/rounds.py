"""Which chunks make a round of a snapshot, and what their results add up to. Pure.

A round's chunks follow one another from the last recorded key on, so one key says how far a snapshot has come. If a chunk in the middle fails,
what was sent behind it is sent again with the same ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from common.errors import DStreamError
from ingester.history.rows import BaseTable, RowKey
from ingester.history.snapshot import Chunk, ChunkDone, Snapshot, SnapshotState
from ingester.history.store import Progress
from ingester.slices import SliceResult, Trouble

_CHUNK_BYTES = 8 * 2**20
"""About how large a chunk is whose rows are wide."""


def chunk_rows(most: int, row_bytes: float | None, rate: int | None) -> int:
    """How many rows a chunk has. `row_bytes`: recent size of a row, None if not known. `rate`: most rows in a second."""
    rows = most if not row_bytes else min(most, int(_CHUNK_BYTES / row_bytes))
    return max(1, rows if rate is None else min(rows, rate))


def tasks(room: int, rows: int, rate: int | None) -> int:
    """How many chunks of `rows` rows a round has: with a `rate`, no more than are due in a second."""
    return max(1, room if rate is None else min(room, rate // rows))


def chunks(
    snapshot: Snapshot,
    table: BaseTable,
    bounds: Sequence[RowKey],
    rows: int,
    *,
    exact: bool,
    rate: int | None = None,
) -> list[Chunk]:
    """The next round: a chunk up to each of `bounds`, or without any the rest of the table. The rest is always alone, so that its last row is
    the last that is sent of the snapshot. `rate`: pauses between rounds keep to it, and a table without an order, which has one round, itself."""

    def chunk(number: int, after: RowKey | None, upto: RowKey | None) -> Chunk:
        return Chunk(
            snapshot=snapshot.id,
            table=table,
            number=snapshot.chunks + number,
            rows=rows,
            after=after,
            upto=upto,
            where=snapshot.where,
            topic=snapshot.topic,
            last=upto is None,
            exact=exact,
            attempt=snapshot.attempt,
            round=snapshot.round,
            rate=None if table.order else rate,
        )

    if not bounds:
        return [chunk(1, snapshot.done, None)]
    return [chunk(number, after, upto) for number, (after, upto) in enumerate(pairwise([snapshot.done, *bounds]), 1)]


@dataclass(frozen=True, slots=True)
class RoundOver:
    """What a round came to. `trouble`: the result of the first chunk that failed. `sent`: rows that were sent, recorded or not. `rest`: the
    chunks that are not, or not whole, in `progress`."""

    progress: Progress
    sent: int
    trouble: SliceResult | None = None
    rest: Sequence[Chunk] = ()


_ENDS = (Trouble.PERMANENT,)
"""Troubles that a snapshot cannot go on after."""


def over(snapshot: Snapshot, out: Sequence[Chunk], results: Sequence[SliceResult]) -> RoundOver:
    """`results`: one of each chunk of `out`, in any order."""
    by_id = {result.chunk: result for result in results}
    ordered = [by_id[chunk.id] for chunk in out]
    done, chunks_done, rows, whole, rest = snapshot.done, 0, 0, True, out
    for chunk, came in zip(out, _dones(ordered), strict=True):
        done = came.upto or (chunk.upto if came.complete else None) or done
        if came.complete or came.upto is not None:  # else it is sent again from its beginning
            rows, chunks_done = rows + came.rows, chunks_done + 1
        if not came.complete:
            whole = False
            break
        rest = rest[1:]
    trouble = next((result for result in ordered if result.trouble is not None), None)
    at_the_end = whole and bool(ordered) and (ordered[-1].done or ChunkDone()).ended
    failed = trouble is not None and trouble.trouble in _ENDS and not _behind(trouble, ordered)
    state = SnapshotState.DONE if at_the_end else SnapshotState.FAILED if failed else SnapshotState.RUNNING
    return RoundOver(
        Progress(
            done=done,
            chunks=snapshot.chunks + chunks_done,
            rows=snapshot.rows + rows,
            state=state,
            error=_text(trouble) if failed and trouble is not None else None,
            lowers=all(came.settled for came in _dones(ordered)),
        ),
        sum(came.rows for came in _dones(ordered)),
        trouble,
        rest,
    )


def deadly(found: RoundOver) -> RoundOver:
    """A round that has killed its worker, as the ones before it: the snapshot ends."""
    why = "" if found.trouble is None else f": {found.trouble.message}"
    error = (
        f"several workers died, one after the other, that read this chunk alone{why} (a value is probably too large for the worker's memory: "
        "raise the container's memory, or spark.executor.memoryOverhead, or leave the column out of the capture instance)"
    )
    return replace(found, progress=replace(found.progress, state=SnapshotState.FAILED, error=error))


def ended(snapshot: Snapshot, error: DStreamError) -> RoundOver:
    """A snapshot that cannot begin a round, and never will."""
    text = f"{error.message} ({error.hint})" if error.hint else error.message
    progress = Progress(snapshot.done, snapshot.chunks, snapshot.rows, SnapshotState.FAILED, text)
    return RoundOver(progress, 0)


def _dones(results: Sequence[SliceResult]) -> Iterator[ChunkDone]:
    return (ChunkDone() if result.done is None else result.done for result in results)


def _behind(trouble: SliceResult, ordered: Sequence[SliceResult]) -> bool:
    """Whether a chunk before that of `trouble` is to be sent again first."""
    before = ordered[: ordered.index(trouble)]
    return any(not came.complete for came in _dones(before))


def _text(trouble: SliceResult) -> str:
    return f"{trouble.message} ({trouble.hint})" if trouble.hint else trouble.message

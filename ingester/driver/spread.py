"""A hot table over many tasks: how many parts a stride has, and what their results add up to. Pure.

A stride is a piece of a table's window, about one page for each task. Its parts are read and sent at the same time. The
offset moves to its end when all of them are sent, or not at all. A stride that failed is sent again, with the same ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil

from ingester.slices import Slice, SliceResult, Trouble
from ingester.source import Part, Stride
from ingester.transform import together

_GRAVITY = (
    Trouble.LEASE_LOST,
    Trouble.PERMANENT,
    Trouble.SHAPE,
    Trouble.QUEUE,
    Trouble.UNEXPECTED,
    Trouble.OVERDUE,
    Trouble.WORKER_LOST,
    Trouble.EXPIRED,
    Trouble.TRANSIENT,
)
"""If several parts fail, the trouble that is first here decides what happens to the table."""


def part_rows(page_rows: int) -> int:
    """Rows of a part: so few that most parts are still one page although no hash is even."""
    return max(1, page_rows * 3 // 4)


def slices(
    todo: Slice, columns: tuple[str, ...], stride: Stride, *, wanted: int, page_rows: int, number: int
) -> list[Slice]:
    """`todo` as parts of its first stride, for which `wanted` rows were asked; `todo` itself if those are too few.

    `todo` starts at the table's offset. `number`: identifies the stride.
    """
    tasks = ceil(stride.rows / part_rows(page_rows))
    if tasks < 2:
        return [todo]
    upto = todo.upto if stride.rows < wanted else stride.end
    return [replace(todo, upto=upto, part=Part(number, one, tasks, columns, stride.rows)) for one in range(tasks)]


def whole(results: Sequence[SliceResult]) -> SliceResult:
    """The result of a stride: its parts' gravest trouble, or all that they sent. `position`: the stored offset."""
    troubled = [result for result in results if result.trouble is not None]
    if troubled:
        worst = min(troubled, key=lambda result: _GRAVITY.index(result.trouble or Trouble.TRANSIENT))
        return replace(worst, changes=0, dropped=0, pages=0, set_aside=(), filter_failed=None, part=None)
    aside = sorted((found for result in results for found in result.set_aside), key=lambda found: found.position)
    return replace(
        results[0],
        changes=sum(result.changes for result in results),
        dropped=sum(result.dropped for result in results),
        pages=sum(result.pages for result in results),
        row_bytes=max((result.row_bytes for result in results if result.row_bytes is not None), default=None),
        page_rows=min((result.page_rows for result in results if result.page_rows is not None), default=None),
        set_aside=tuple(aside),
        filter_failed=together(result.filter_failed for result in results),
        part=None,
    )

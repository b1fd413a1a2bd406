"""The `snapshot` block: when the rows that a table holds are sent, and how fast. Opens nothing."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from common.config.settings import Settings

Mode = Literal["never", "initial", "when_needed"]


class SnapshotOverride(Settings):
    """The `snapshot` block of one table."""

    mode: Mode | None = Field(default=None, description="As in `snapshot`. None, the default: the value there.")
    exact: bool | None = Field(default=None, description="As in `snapshot`. None, the default: the value there.")


class SnapshotSettings(Settings):
    """The `snapshot` block."""

    mode: Mode = Field(
        default="never",
        description=(
            "When the rows that a table holds are sent as well: `never`; `initial`: for a table without an offset; `when_needed`: also after "
            "a gap. The default is `never`, because it may be many messages. `dstream snapshot start` works with each of them."
        ),
    )
    exact: bool = Field(
        default=False,
        description=(
            "Whether no row is ever sent in an older state than one that was sent before. Rows that change while they are read are then left "
            "to their changes, and a chunk waits for capture. Off by default, because the last message of a row is its state in any case."
        ),
    )
    chunk_rows: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description=(
            "The most rows of a chunk: what a task reads and sends at a time, and sends again after a crash. Chunks of wide rows have fewer. "
            "The table's changes wait for a round of chunks; with `10000` that is about a second."
        ),
    )
    max_rows_per_second: int | None = Field(
        default=None,
        ge=1,
        description="The most rows that an ingester reads for the snapshots of one table in a second. None, the default: no limit.",
    )

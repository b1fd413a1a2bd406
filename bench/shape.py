"""What a shape costs a change: microseconds for none, one mask, one filter and three of each, and how it compares with no shape at all.

    .venv/bin/python -m bench.shape [--changes 20000] [--rounds 7]

Each round transforms and encodes the same changes of 20 columns with each shape in turn, so that a noisy moment meets all of them; the best
round counts. Rows have the columns that a source reads for the shape. `before` is what a task did without shapes: the encoder alone. The last
line is JSON with the same figures.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace

from common.names import Origin, TableName
from ingester.change import Change, Operation
from ingester.shape.compiled import compiled
from ingester.shape.mask import mask_of
from ingester.shape.table_shape import AS_CAPTURED, TableShape
from ingester.source import CapturedColumn, CaptureInstance
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.task.encode import Encoder
from ingester.transform import transformed

TABLE = TableName("dbo", "Persons")
COLUMNS = (
    CapturedColumn("Id", "int", 1, key_ordinal=1, length=4),
    *(CapturedColumn(f"Text{n}", "nvarchar", n, length=200) for n in range(2, 15)),
    *(CapturedColumn(f"Number{n}", "int", n, length=4) for n in range(15, 21)),
)
HASH, CUT, REDACT = "hash:SHA-256:CzQMA0cB5K", "truncate:4", "redact"
SHAPES = {
    "none": AS_CAPTURED,
    "columns": TableShape(excluded=("Text3", "Number16")),
    "one mask": TableShape(masks=(("Text2", mask_of(HASH)),)),
    "one filter": TableShape(filter="data.Number15 > 3"),
    "three masks": TableShape(
        masks=tuple((f"Text{n}", mask_of(text)) for n, text in ((2, HASH), (4, CUT), (5, REDACT)))
    ),
    "three of each": TableShape(
        masks=tuple((f"Text{n}", mask_of(text)) for n, text in ((2, HASH), (4, CUT), (5, REDACT))),
        filter="data.Number15 > 3 && data.Text6 != 'x' && metadata.OperationType != 'Delete'",
        excluded=("Text3", "Number16", "Number17"),
    ),
}


def changes(count: int) -> list[Change]:
    def row(number: int) -> dict[str, object]:
        texts = {column.name: f"{column.name} of row {number}" for column in COLUMNS if column.type == "nvarchar"}
        return {"Id": number, **texts, **{column.name: number + 4 for column in COLUMNS[14:]}}

    at = [
        LogPosition(Lsn((number // 100 + 1).to_bytes(10, "big")), 1, number.to_bytes(10, "big"), 2)
        for number in range(count)
    ]
    return [
        Change(TABLE, "dbo_Persons", place, Operation.INSERT, row(number), key=(number,))
        for number, place in enumerate(at)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    page, encoder = changes(given.changes), Encoder(Origin("server", "database"), "ingest-queue")
    instance = CaptureInstance("dbo_Persons", TABLE, LogPosition.before(Lsn(bytes(10))), COLUMNS)

    def shaped(shape: TableShape) -> Callable[[], int]:
        read = compiled(shape, instance, sends_before=False, metadata=encoder.metadata).columns
        found = page if read is None else [replace(one, data={name: one.data[name] for name in read}) for one in page]

        def run() -> int:
            ready = compiled(shape, instance, sends_before=False, metadata=encoder.metadata)
            return len([encoder.message(one) for one in transformed(found, ready.transforms).changes])

        return run

    def before() -> int:
        return len([encoder.message(one) for one in transformed(page, ()).changes])

    cases = {"before": before, **{name: shaped(shape) for name, shape in SHAPES.items()}}
    best = dict.fromkeys(cases, float("inf"))
    for _ in range(given.rounds):
        for name, run in cases.items():
            started = time.perf_counter()
            assert run() == given.changes
            best[name] = min(best[name], time.perf_counter() - started)
    each = {name: seconds / given.changes * 1e6 for name, seconds in best.items()}
    for name, micros in each.items():
        print(f"{name:<14} {micros:7.2f} µs a change, {micros - each['before']:+7.2f} against before")
    print(json.dumps({name: round(micros, 2) for name, micros in each.items()}))


if __name__ == "__main__":
    main()

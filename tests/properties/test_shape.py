"""Random rows, columns, masks, filters and skips against a model of ten lines: what is sent, in which order, and what was left out.

The drain, the encoder and the transforms are the product's. The same changes drained without a shape say which ids, which order and which
last offset are right.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from common.clock import SteadyTime, UnixTime
from ingester.change import Change, Operation
from ingester.position import Position
from ingester.shape.mask import mask_of
from ingester.shape.table_shape import TableShape
from ingester.slices import Slice, SliceResult
from ingester.source import CapturedColumn, CaptureInstance, Page, PageQuery
from ingester.sqlserver.position import LogPosition
from ingester.task.drain import Drain
from tests.fakes.ingester import PERSONS, FakeOffsets, FakeSender, FakeSource, encoder, lsn

CASES, MANY_CASES = 150, 20_000
SALT = "CzQMA0cB5K"
COLUMNS = (
    CapturedColumn("Id", "int", 1, key_ordinal=1, length=4),
    CapturedColumn("Name", "nvarchar", 2, length=24),
    CapturedColumn("E-Mail", "varchar", 3, length=200),
    CapturedColumn("Age", "int", 4, length=4),
    CapturedColumn("Notes", "nvarchar", 5, length=-1, large=True),
)
NAMES = [column.name for column in COLUMNS]
MASKS: Mapping[str, Callable[[str], object]] = {
    f"hash:SHA-256:{SALT}": lambda text: hashlib.sha256((SALT + text).encode()).hexdigest(),
    "redact": lambda text: "***",
    "truncate:2": lambda text: text[:2],
    "null": lambda text: None,
}
FILTERS: Mapping[str, Callable[[Change], bool]] = {
    "data.Id % 2 == 0": lambda change: int(str(change.data["Id"])) % 2 == 0,
    "data['E-Mail'] != null && data.name != 'ab'": lambda change: (
        change.data["E-Mail"] is not None and change.data["Name"] != "ab"
    ),
    "metadata.OperationType != 'Delete'": lambda change: change.operation is not Operation.DELETE,
    "data.exists(name, name == 'Age' && data[name] == 3)": lambda change: change.data["Age"] == 3,
}


@dataclass
class Recorded(FakeSource):
    """Changes with both images, of which it reads what a query asks for, as a source does."""

    changes: Sequence[Change] = ()
    columns: set[str] = field(default_factory=set)
    """Those that were ever asked for."""

    def page(self, query: PageQuery) -> Page:
        found = [one for one in self.changes if query.after < one.position <= query.upto][: query.rows]
        wanted = {"Id", *(NAMES if query.columns is None else query.columns)}
        self.columns |= wanted

        def some(row: Mapping[str, object] | None) -> dict[str, object] | None:
            return None if row is None else {name: row[name] for name in row if name in wanted}

        read = [
            replace(
                one,
                data=some(one.data) or {},
                before=some(one.before) if query.before_images else None,
                changed_columns=tuple(name for name in one.changed_columns if name in wanted),
            )
            for one in found
        ]
        return Page(read, found[-1].position if found else None, len(found) == query.rows, query.instance.start)


def drawn(random: Random) -> tuple[list[Change], TableShape]:
    """Changes of one table, and a shape of it."""

    def row() -> dict[str, object]:
        texts = ["ab", "abc", "größer", "\U0001f600x", "", None]
        values = [random.randrange(9), random.choice(texts), random.choice(texts)]
        return dict(zip(NAMES, [*values, random.choice([None, 3, 40]), random.choice(texts)], strict=True))

    changes = []
    for number in range(random.randrange(1, 25)):
        operation = random.choice([Operation.INSERT, Operation.UPDATE, Operation.UPDATE, Operation.DELETE])
        data = row()
        before = {name: random.choice([value, row()[name]]) for name, value in data.items()} | {"Id": data["Id"]}
        # The server's mask has every column that changed, and perhaps others that were written.
        written = tuple(name for name in NAMES if before[name] != data[name] or not random.randrange(4))
        at = LogPosition(lsn(1 + number // 4), 1, number.to_bytes(10, "big"), int(operation))
        one = Change(PERSONS, "dbo_Persons", at, operation, data, key=(data["Id"],))
        if operation is Operation.UPDATE:
            one = replace(one, before=before, changed_columns=written)
        changes.append(one)
    others = random.sample(NAMES[1:], random.randrange(len(NAMES)))
    by = random.choice(["all", "columns", "excluded"])
    sent = {"all": NAMES, "columns": ["Id", *others], "excluded": [name for name in NAMES if name not in others]}[by]
    text_columns = [name for name in sent if name not in ("Id", "Age")]
    masks = {name: random.choice(list(MASKS)) for name in text_columns if random.randrange(2)}
    shape = TableShape(
        columns=tuple(name.lower() for name in sent) if by == "columns" else None,
        excluded=tuple(others) if by == "excluded" else (),
        masks=tuple((random.choice([name, name.upper()]), mask_of(text)) for name, text in masks.items()),
        filter=random.choice([None, *FILTERS]),
        skip_operations=tuple(random.sample([Operation.DELETE, Operation.INSERT], random.choice([0, 0, 1, 2]))),
        skip_unchanged=bool(random.randrange(2)),
    )
    return changes, shape


def model(change: Change, shape: TableShape) -> dict[str, Any] | None:
    """The data that is sent of a change; None if it is left out."""
    listed = shape.columns or tuple(name for name in NAMES if name not in shape.excluded)
    sent = [name for name in NAMES if name.lower() in {one.lower() for one in listed}]
    same = change.before is not None and all(change.before[name] == change.data[name] for name in sent)
    wanted = shape.filter is None or FILTERS[shape.filter](change)
    if change.operation in shape.skip_operations or not wanted or (shape.skip_unchanged and same):
        return None
    forms = {name.lower(): f"hash:SHA-256:{SALT}" if mask.kind == "hash" else mask.kind for name, mask in shape.masks}
    forms = {name: "truncate:2" if form == "truncate" else form for name, form in forms.items()}
    length = {"Name": 12, "E-Mail": 200}
    masked = {name: MASKS[forms[name.lower()]] for name in sent if name.lower() in forms}
    values = {name: change.data[name] for name in sent}
    made = {name: masked[name](str(v)) if v is not None and name in masked else v for name, v in values.items()}
    cut = {name: value[: length.get(name)] for name, value in made.items() if isinstance(value, str) and name in masked}
    return {**made, **cut}


def drained(
    changes: Sequence[Change], shape: TableShape, rows: int
) -> tuple[Recorded, FakeSender, FakeOffsets, SliceResult]:
    source, sender, offsets = Recorded(changes=changes), FakeSender(), FakeOffsets()
    offsets.claim(PERSONS, 7)
    drain = Drain(source, offsets, sender, encoder(), lambda: UnixTime(1000.0), lambda: SteadyTime(5.0))
    start, upto = LogPosition.before(lsn(1)), LogPosition.end_of(lsn(9))
    instance = CaptureInstance("dbo_Persons", PERSONS, start, COLUMNS)
    todo = Slice(PERSONS, instance, start, upto, epoch=7, rows=rows, seconds=10, shape=shape)
    return source, sender, offsets, drain.run(todo)


def check(seed: int) -> int:
    random = Random(seed)
    changes, shape = drawn(random)
    rows = random.choice([1, 2, 5, 100])
    _, all_sent, _, plain = drained(changes, TableShape(), rows)
    source, sender, offsets, result = drained(changes, shape, rows)
    expected = [(all_sent.sent[at], data) for at, one in enumerate(changes) if (data := model(one, shape)) is not None]
    told = f"seed {seed}: {shape}"
    assert result.trouble is plain.trouble is None, (told, result.message)
    assert [json.loads(one.body)["data"] for one in sender.sent] == [data for _, data in expected], told
    assert [_identity(one) for one in sender.sent] == [_identity(one) for one, _ in expected], told
    assert all("before" not in json.loads(one.body) for one in sender.sent), told
    assert (result.changes, result.dropped) == (len(expected), len(changes) - len(expected)), told
    assert (result.position, result.pages) == (plain.position, plain.pages), told
    last: Position | None = offsets.stored[PERSONS]
    assert last == changes[-1].position, told
    for one in sender.sent:
        named = json.loads(one.body)["metadata"].get("ChangedColumns", [])
        assert set(named) <= set(json.loads(one.body)["data"]), told
    if shape.filter is None and shape.excluded:
        assert not source.columns & set(shape.excluded), told
    return len(expected)


def _identity(message: Any) -> tuple[object, ...]:
    return message.message_id, message.session_id, message.subject


def test_what_is_sent_is_what_the_model_says_and_the_rest_is_counted() -> None:
    sent = [check(seed) for seed in range(CASES)]
    assert 0 in sent, "a page of which nothing is left"
    assert sum(sent) > CASES


@pytest.mark.soak
def test_what_is_sent_is_what_the_model_says_and_the_rest_is_counted_for_long() -> None:
    for seed in range(CASES, MANY_CASES):
        check(seed)

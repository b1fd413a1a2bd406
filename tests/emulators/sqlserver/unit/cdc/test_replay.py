"""Random transactions over two tables: their change tables, replayed in the order (start_lsn, command_id, seqval, operation),
rebuild the tables, and are what a small model of Change Data Capture says they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.emulators.sqlserver.unit.cdc.conftest import INT, Lab
from tests.fakes.sql_database import FakeTransaction, Named

TABLES = ("Left", "Right")
State = dict[int, int]
"""A table's rows: its key and its one other column."""


@dataclass(frozen=True)
class Step:
    """`kind` on the rows of `table` whose key is in [key, key + width): "shift" adds `value` + 1 to their keys."""

    kind: str
    table: str
    key: int
    width: int
    value: int


STEPS = st.builds(
    Step,
    st.sampled_from(["insert", "insert", "update", "delete", "shift", "save", "back"]),
    st.sampled_from(TABLES),
    st.integers(0, 6),
    st.integers(1, 4),
    st.integers(0, 2),
)
TRANSACTIONS = st.lists(
    st.tuples(st.lists(STEPS, max_size=6), st.sampled_from(["commit", "commit", "rollback"])), max_size=8
)


@dataclass
class Model:
    """What each table holds, and (table, transaction, command, operation, key, value) of every change in replay order."""

    tables: dict[str, State] = field(default_factory=lambda: {name: {} for name in TABLES})
    changes: list[tuple[str, int, int, int, int, int]] = field(default_factory=list)
    number: int = 0
    command: int = 1

    def log(self, step: Step, *commands: list[tuple[int, int, int]]) -> None:
        for rows in filter(None, commands):
            self.changes += [(step.table, self.number, self.command, *row) for row in rows]
            self.command += 1

    def run(self, step: Step, chosen: list[int]) -> None:
        rows = self.tables[step.table]
        if step.kind == "insert":
            new = [key for key in range(step.key, step.key + step.width) if key not in rows]
            rows |= dict.fromkeys(new, step.value)
            self.log(step, [(2, key, step.value) for key in new])
        elif step.kind == "delete":
            self.log(step, [(1, key, rows.pop(key)) for key in chosen])
        elif step.kind == "update":
            pairs = [(key, rows[key]) for key in chosen if rows[key] != step.value]
            rows |= dict.fromkeys(chosen, step.value)
            self.log(step, [image for key, old in pairs for image in ((3, key, old), (4, key, step.value))])
        elif step.kind == "shift":
            moved = {key: rows.pop(key) for key in chosen}
            by = step.value + 1
            rows |= {key + by: value for key, value in moved.items()}
            self.log(step, [(1, k, v) for k, v in moved.items()], [(2, k + by, v) for k, v in moved.items()])


def play(model: Model, transaction: FakeTransaction, steps: list[Step], order: dict[str, list[int]]) -> None:
    """Run the steps on both; `order` holds each table's keys in the order in which the database keeps its rows."""
    saved: tuple[dict[str, State], int, dict[str, list[int]]] | None = None
    for step in steps:
        rows = model.tables[step.table]
        chosen = [key for key in order[step.table] if step.key <= key < step.key + step.width]
        if step.kind == "save":
            transaction.save("here")
            saved = (
                {t: dict(r) for t, r in model.tables.items()},
                len(model.changes),
                {t: [*k] for t, k in order.items()},
            )
        elif step.kind == "back":
            if saved is not None:
                transaction.rollback_to("here")
                model.tables = {t: dict(r) for t, r in saved[0].items()}
                del model.changes[saved[1] :]
                order.update({t: [*k] for t, k in saved[2].items()})
        elif step.kind == "shift" and any(key + step.value + 1 in rows.keys() - set(chosen) for key in chosen):
            continue  # the key would be taken: a primary key violation, which an engine refuses
        else:
            apply(transaction, step, chosen, rows)
            model.run(step, chosen)
            by = step.value + 1 if step.kind == "shift" else 0
            kept = [key + by if key in chosen else key for key in order[step.table]]
            kept = [key for key in kept if key in model.tables[step.table]]
            order[step.table] = kept + [key for key in model.tables[step.table] if key not in kept]


def apply(transaction: FakeTransaction, step: Step, chosen: list[int], rows: State) -> None:
    def is_chosen(row: Named) -> bool:
        return row["Key"] in chosen

    def shifted(row: Named) -> Named:
        key = row["Key"]
        assert isinstance(key, int)
        return {"Key": key + step.value + 1}

    if step.kind == "insert":
        new: list[Named] = [
            {"Key": key, "Value": step.value} for key in range(step.key, step.key + step.width) if key not in rows
        ]
        transaction.insert(step.table, *new)
    elif step.kind == "delete":
        transaction.delete(step.table, is_chosen)
    elif step.kind == "update":
        transaction.update(step.table, is_chosen, lambda row: {"Value": step.value})
    else:
        transaction.update(step.table, is_chosen, shifted)


def replayed(changes: list[Named]) -> State:
    rows: State = {}
    for change in changes:
        key, value = change["Key"], change["Value"]
        assert isinstance(key, int)
        assert isinstance(value, int)
        if change["__$operation"] == 2:
            assert key not in rows
            rows[key] = value
        elif change["__$operation"] in (1, 3):
            assert rows[key] == value
            if change["__$operation"] == 1:
                del rows[key]
        else:
            rows[key] = value
    return rows


def check(lab: Lab, model: Model) -> None:
    lsns = sorted({c["__$start_lsn"] for t in TABLES for c in lab.changes(f"dbo_{t}")})
    assert [entry["start_lsn"] for entry in lab.entries()] == lsns
    numbers = sorted({change[1] for change in model.changes})
    for name in TABLES:
        changes = lab.changes(f"dbo_{name}")
        assert replayed(changes) == model.tables[name]
        seen = [
            (
                *(name, numbers[lsns.index(c["__$start_lsn"])], c["__$command_id"]),
                *(c["__$operation"], c["Key"], c["Value"]),
            )
            for c in changes
        ]
        assert seen == [change for change in model.changes if change[0] == name]
        assert all(c["__$seqval"] < c["__$start_lsn"] for c in changes)


@settings(max_examples=120, deadline=None)
@given(TRANSACTIONS)
def test_change_tables_replayed_in_order_rebuild_the_tables(transactions: list[tuple[list[Step], str]]) -> None:
    with TemporaryDirectory() as folder:
        lab = Lab(Path(folder) / "demo.sqlite")
        try:
            lab.run("sp_cdc_enable_db")
            for name in TABLES:
                lab.database.define(name, {"Key": INT, "Value": INT}, key=["Key"])
                lab.enable(name)
            model = Model()
            order: dict[str, list[int]] = {name: [] for name in TABLES}
            for number, (steps, end) in enumerate(transactions):
                before = ({t: dict(r) for t, r in model.tables.items()}, len(model.changes), dict(order))
                model.number, model.command = number, 1
                with lab.database.transaction() as transaction:
                    play(model, transaction, steps, order)
                    if end == "rollback":
                        transaction.rollback()
                if end == "rollback":
                    model.tables, order = before[0], before[2]
                    del model.changes[before[1] :]
                if number % 3 == 0:
                    lab.scan()
            lab.scan()
            check(lab, model)
        finally:
            lab.close()

"""Random histories in which capture instances come and go while a reader stops and starts again: each change once, in order, by the right one.

Pages of every size, through the table and through its function; an offset is kept wherever a page ended.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingester.position import Position
from ingester.source import PageQuery
from ingester.window import gap, probe_request, superseded, window
from tests.contracts.source.conftest import Places
from tests.contracts.source.test_source import PERSONS, Place

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("insert"), st.integers(1, 4)),
        st.tuples(st.just("update"), st.integers(0, 20)),
        st.tuples(st.just("delete"), st.integers(0, 20)),
        st.tuples(st.just("transaction"), st.integers(2, 5)),
        st.tuples(st.sampled_from(["instance", "drop", "scan", "scan"]), st.just(0)),
        st.tuples(st.just("read"), st.integers(1, 4)),
    ),
    max_size=18,
)
Told = tuple[str, int, frozenset[str]]
"""Operation, ID, and the columns that the change tells of."""


@dataclass
class History:
    """A table and what was committed to it; a reader of it with its offset."""

    place: Place
    rows: int
    columns: tuple[str, ...] = ("ID", "Name", "Bio")
    newest: frozenset[str] = frozenset(("ID", "Name", "Bio"))
    alive: list[int] = field(default_factory=list)
    committed: list[Told] = field(default_factory=list)
    told: list[Told] = field(default_factory=list)
    offset: Position | None = None
    last_id: int = 0
    instances: int = 1

    def step(self, kind: str, number: int) -> None:
        if kind in ("insert", "transaction"):
            self.insert(number, kind == "transaction")
        elif kind in ("update", "delete"):
            self.change(kind, number)
        elif kind == "instance":
            self.new_instance()
        elif kind == "drop":
            self.drop_what_may_go()
        elif kind == "scan":
            self.place.scan()
        else:
            self.read(number)

    def insert(self, count: int, one_by_one: bool) -> None:
        made = list(range(self.last_id + 1, self.last_id + 1 + count))
        self.last_id += count
        if one_by_one:
            statements = "; ".join(f"INSERT INTO dbo.Persons (ID) VALUES ({n})" for n in made)
            self.place.execute(f"BEGIN TRANSACTION; {statements}; COMMIT")
        else:
            self.place.execute(f"INSERT INTO dbo.Persons (ID) VALUES {', '.join(f'({n})' for n in made)}")
        self.alive += made
        self.committed += [("INSERT", n, self.newest) for n in made]

    def change(self, kind: str, number: int) -> None:
        if not self.alive:
            return
        chosen = self.alive[number % len(self.alive)]
        if kind == "update":
            self.place.execute(f"UPDATE dbo.Persons SET Name = CONCAT(Name, N'x') WHERE ID = {chosen}")
        else:
            self.place.execute(f"DELETE FROM dbo.Persons WHERE ID = {chosen}")
            self.alive.remove(chosen)
        self.committed.append((kind.upper(), chosen, self.newest))

    def new_instance(self) -> None:
        if len(self.place.source.states([PERSONS])[PERSONS].instances) == 2:
            return
        self.instances += 1
        column = f"C{self.instances}"
        self.place.execute(f"ALTER TABLE dbo.Persons ADD {column} INT NULL")
        self.place.enable(capture_instance=f"z{9 - self.instances % 10}_{self.instances}")
        self.columns += (column,)
        self.newest = frozenset(self.columns)

    def drop_what_may_go(self) -> None:
        for old in superseded(self.place.source.states([PERSONS])[PERSONS].instances, self.offset):
            self.place.execute(f"EXEC sys.sp_cdc_disable_table N'dbo', N'Persons', N'{old.name}'")

    def read(self, pages: int) -> None:
        """At most so many pages; then the process ends, and the next begins at the offset."""
        turns = 0
        while pages > 0:
            turns += 1
            assert turns < 500, "the reader gets nowhere"
            instances = self.place.source.states([PERSONS])[PERSONS].instances
            request = probe_request(instances, self.offset)
            probe = self.place.source.probe([request])
            chosen = window(instances, self.offset, probe.upto)
            answer = probe.answers[request.instance.name]
            assert self.offset is None or gap(self.offset, answer.low_watermark) is None
            if chosen.upto is None:
                return
            after = self.offset or chosen.instance.start
            if answer.pending:
                page = self.place.source.page(PageQuery(chosen.instance, after=after, upto=chosen.upto, rows=self.rows))
                assert page.changes
                self.told += [
                    (c.operation.name, int(str(c.data["ID"])), frozenset(c.data) | frozenset(c.unavailable))
                    for c in page.changes
                ]
                self.offset = page.end
                pages -= 1
            elif chosen.upto > after:
                self.offset = chosen.upto
            if not answer.pending and not chosen.hands_over:
                return


@pytest.mark.parametrize("mode", ["direct", "function"])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS, rows=st.integers(1, 5), before_images=st.booleans())
def test_each_change_is_told_once_in_order_by_the_instance_that_was_newest_when_it_was_made(
    places: Places, mode: str, steps: list[tuple[str, int]], rows: int, before_images: bool
) -> None:
    history = History(places(query_mode=mode, before_images=before_images), rows)
    for kind, number in steps:
        history.step(kind, number)
        assert history.told == history.committed[: len(history.told)]
    history.place.scan()
    history.read(10_000)
    assert history.told == history.committed

"""Whatever is captured, killed, paused or asked for meanwhile, who applies a table's messages by key ends with the table's rows.

Each seed is a case: a table, its changes, capture's lag, the sizes of pages, chunks and batches, and troubles at the points where a snapshot
is most easily spoilt: whole ingesters die, or their drivers alone, or workers; workers that were taken for dead go on later; answers are lost.
The loop, the tasks and the encoder are the product's; the clock is virtual, so a case takes about 40 ms.

`SNAPSHOT_SEEDS=FIRST-LAST` runs others than the usual seeds.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import structlog

from common.message import Property
from ingester.history.snapshot import Reason, Snapshot, SnapshotState
from tests.fakes.ingester import ORDERS, PERSONS
from tests.worlds.virtual.case import Case, Run, drawn
from tests.worlds.virtual.database import Key
from tests.worlds.virtual.ports import matches
from tests.worlds.virtual.queue import Accepted, Consumer

SEEDS, MANY_SEEDS, OF_A_TEST = 100, 20_000, 50
SMALLER = 80
"""How many smaller cases are tried when one has failed."""
HELD_UP_SECONDS = 20.0
"""A table is looked at every 5 seconds at least, and its slice may wait for a slot."""

TOPIC = "server.database.dbo.Persons"


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """A case logs hundreds of lines."""
    before = structlog.get_config()
    structlog.configure(
        logger_factory=structlog.ReturnLoggerFactory(), wrapper_class=structlog.make_filtering_bound_logger(50)
    )
    yield
    structlog.configure(**before)


def _seeds(usual: int) -> list[range]:
    first, _, last = os.environ.get("SNAPSHOT_SEEDS", "").partition("-")
    seeds = range(int(first), int(last or first) + 1) if first else range(usual)
    return [seeds[at : at + OF_A_TEST] for at in range(0, len(seeds), OF_A_TEST)]


def _named(seeds: range) -> str:
    return f"{seeds[0]}-{seeds[-1]}"


@pytest.mark.parametrize("seeds", _seeds(SEEDS), ids=_named)
def test_a_consumer_ends_with_the_rows_of_the_table(seeds: range) -> None:
    _hold(seeds)


@pytest.mark.soak
@pytest.mark.parametrize("seeds", _seeds(MANY_SEEDS), ids=_named)
def test_a_consumer_ends_with_the_rows_of_the_table_in_many_cases(seeds: range) -> None:
    _hold(seeds)


def _hold(seeds: range) -> None:
    for seed in seeds:
        if found := broken(case := drawn(seed)):
            small, why = _smallest(case)
            pytest.fail(f"seed {seed}: {found}\nsmallest case: {small}\n{why}", pytrace=False)


def _smallest(case: Case) -> tuple[Case, list[str]]:
    """The smallest of some smaller cases that fail."""
    left, why = SMALLER, broken(case)
    smaller = case.smaller()
    while left and (candidate := next(smaller, None)) is not None:
        left -= 1
        if found := broken(candidate):
            case, why, smaller = candidate, found, candidate.smaller()
    return case, why


def broken(case: Case) -> list[str]:
    """Which promises a case breaks, and how."""
    try:
        run = Run(case).go()
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    return [f"{check.__name__.strip('_')}: {why}" for check in CHECKS for why in check(run)] + run.wrong


def _main(run: Run) -> list[Accepted]:
    """The messages of the table's own topic."""
    ours = [came for came in run.queue.accepted if came.table == PERSONS.table]
    return [came for came in ours if came.message.application_properties[Property.DESTINATION] != "side"]


def _done(run: Run) -> list[Snapshot]:
    return [one for one in run.store.stored.values() if one.state is SnapshotState.DONE]


def _rows(run: Run) -> dict[Key, int]:
    return {key: row.version for key, row in run.database.tables[PERSONS].items()}


def _touched(run: Run) -> set[Key]:
    """Rows that have changed since capture was enabled."""
    changes = run.database.changes(PERSONS, run.database.log)
    return {(int(str(change.data["ID"])), int(str(change.data["Sub"]))) for change in changes}


def _final_state(run: Run) -> Iterator[str]:
    consumer = Consumer(sweeps=run.case.ordering == "table")
    for came in _main(run):
        consumer.apply(came)
    consumer.end()
    whole = any(one.where is None and one.topic is None for one in _done(run))
    touched, held = _touched(run), run.database.tables[PERSONS]
    expected = {
        key: version
        for key, version in _rows(run).items()
        if whole
        or _pair(key) in touched
        or any(one.topic is None and matches(one.where, held[key]) for one in _done(run))
    }
    if (seen := consumer.rows) != (wanted := {_pair(key): version for key, version in expected.items()}):
        yield f"missing or older {set(wanted.items()) - set(seen.items())}, wrong {set(seen.items()) - set(wanted.items())}"


def _pair(key: Key) -> Key:
    return key[0], key[-1]


def _every_change(run: Run) -> Iterator[str]:
    ids = {came.message.message_id for came in run.queue.accepted}
    for table in (PERSONS, ORDERS):
        for change in run.database.changes(table, run.database.log):
            lost = table == PERSONS and change.position <= run.lost
            if not lost and f"database.{table.key}:{change.position.place()[0]}" not in ids:
                yield f"change at {change.position} was not delivered"


def _order(run: Run) -> Iterator[str]:
    """Of the first delivery of each change: of a table, or with ordering by key of a row."""
    last: dict[object, str] = {}
    known: set[str | None] = set()
    for came in run.queue.accepted:
        name = came.message.message_id
        if came.message.subject in ("Read", "Gap") or name in known:
            continue
        known.add(name)
        body = came.body()
        place = body["metadata"]["LSN"] + f"{body['metadata']['CommandID']:010}"
        row = (body["data"]["ID"], body["data"]["Sub"]) if run.case.ordering == "key" else None
        if place < last.get((came.table, row), ""):
            yield f"change {name} was delivered after a later one"
        last[came.table, row] = place


def _offsets(run: Run) -> Iterator[str]:
    yield from run.parts.offsets.moved_back


def _ids(run: Run) -> Iterator[str]:
    """The same id is the same thing; what duplicate detection leaves has each id once."""
    things: dict[str | None, tuple[object, ...]] = {}
    for came in (*run.queue.accepted, *run.queue.dropped):
        body = came.body()
        thing = (came.message.subject, body["data"].get("ID"), body["data"].get("Sub"), body["metadata"].get("Gap"))
        unkeyed = came.message.subject == "Read" and not run.case.keyed
        if not unkeyed and things.setdefault(came.message.message_id, thing) != thing:
            yield f"id {came.message.message_id} is {things[came.message.message_id]} and {thing}"
    if run.case.detects:
        counts = Counter(came.message.message_id for came in run.queue.accepted)
        yield from (f"{name} was delivered {times} times" for name, times in counts.items() if times > 1)


def _reads(run: Run, snapshot: str) -> list[Accepted]:
    sent = [came for came in (*run.queue.accepted, *run.queue.dropped) if came.message.subject == "Read"]
    return [came for came in sent if came.body()["metadata"]["Snapshot"]["Id"] == snapshot]


def _again(run: Run) -> Iterator[str]:
    """At most the chunks of the round in flight are sent again, for each trouble."""
    most = run.fired * run.case.slots * run.parts.chunk_rows
    if run.case.keyed:
        times = Counter(
            came.message.message_id
            for came in (*run.queue.accepted, *run.queue.dropped)
            if came.message.subject == "Read"
        )
        if (again := sum(times.values()) - len(times)) > most:
            yield f"{again} rows were sent again after {run.fired} troubles, {most} were in flight at most"


def _exact(run: Run) -> Iterator[str]:
    """Where nothing comes twice: a page that is sent again after a kill is older than what followed it."""
    if not run.case.exact or run.moved or not (run.case.detects or run.fired == 0):
        return
    last: dict[Key, int] = {}
    for came in _main(run):
        if came.message.subject != "Gap":
            data = came.body()["data"]
            key = data["ID"], data["Sub"]
            if data["V"] < last.get(key, 0):
                yield f"row {key} was seen at {last[key]} and then at {data['V']}"
            last[key] = data["V"]


def _finished(run: Run) -> Iterator[str]:
    for one in _done(run):
        if (times := run.store.finished.count(one.id)) != 1:
            yield f"{one.id} was done {times} times"
        held = [row for row in run.database.tables[PERSONS].values() if matches(one.where, row)]
        if run.case.writes == 0 and one.rows != len(held):
            yield f"{one.id} counted {one.rows} rows of {len(held)}"
        if run.fired == 0 and not run.case.exact and one.rows != (sent := len(_reads(run, one.id))):
            yield f"{one.id} counted {one.rows} rows and sent {sent}"
        lasts = [came.body()["metadata"]["Snapshot"]["Last"] for came in _reads(run, one.id)]
        if run.fired == 0 and run.case.writes == 0 and sum(lasts) != bool(lasts):
            yield f"{one.id} has {sum(lasts)} last rows"
    states = [one.state for one in run.store.stored.values() if one.reason is Reason.INITIAL]
    if run.case.initial and len(states) - states.count(SnapshotState.STOPPED) not in (0, 1):
        yield f"{len(states)} initial snapshots"


def _side_topic(run: Run) -> Iterator[str]:
    """A snapshot for another topic has all rows that stayed as they were."""
    for one in _done(run):
        if one.topic is not None:
            read = {(came.body()["data"]["ID"], came.body()["data"]["Sub"]) for came in _reads(run, one.id)}
            if missing := {_pair(key) for key in _rows(run)} - _touched(run) - read:
                yield f"{one.id} lacks {missing}"


_OF_CHUNKS = ("fence raised", "chunk read")


def _other_tables(run: Run) -> Iterator[str]:
    """Not held up, whatever happens to chunks."""
    harmless = all(one.what == "freeze" and one.point in _OF_CHUNKS for one in run.case.troubles)
    if not harmless or run.case.fates or any(what == "gap" for _, what in run.case.said):
        return
    came = {one.message.message_id: one.at for one in reversed(run.queue.accepted)}
    for transaction in run.database.log:
        for change in transaction.changes.get(ORDERS, ()):
            assert transaction.captured is not None
            waited = came[f"database.{ORDERS.key}:{change.position.place()[0]}"] - transaction.captured
            if waited > HELD_UP_SECONDS:
                yield f"change at {change.position} of another table waited {waited:.1f} s"


CHECKS: tuple[Callable[[Run], Iterator[str]], ...] = (
    *(_final_state, _every_change, _order, _offsets, _ids, _again, _exact, _finished, _side_topic, _other_tables),
)

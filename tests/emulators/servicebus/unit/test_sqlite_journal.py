"""The data file: what was told before a commit is read back, whatever happened in what order; unusable files are refused."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emulators.servicebus.amqp.encode import encode
from emulators.servicebus.amqp.values import Described, Symbol, Timestamp, UByte, UInt, ULong
from emulators.servicebus.description import Description, QueueDescription, SubscriptionDescription, TopicDescription
from emulators.servicebus.journal import DEAD_LETTERS, SCHEDULE
from emulators.servicebus.message import Message, MessageState, parse_message
from emulators.servicebus.rules.description import RuleDescription, RuleInfo, SqlFilter
from emulators.servicebus.storage.data_file import FILE, FORMAT, UnusableData, open_data
from emulators.servicebus.storage.recovery import (
    read_entities,
    read_messages,
    read_rules,
    read_seen,
    read_sequences,
    read_session_states,
)
from emulators.servicebus.storage.sqlite_journal import SqliteJournal

LOCK_ONLY = {"lock_token", "locked_until"}
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)


def facts(message: Message) -> dict[str, Any]:
    """All of a message that is to be kept."""
    return {name: getattr(message, name) for name in Message.__slots__ if name not in LOCK_ONLY}


@dataclass
class Model:
    """What a journal was told, by the words of its port."""

    entities: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    rules: dict[tuple[str, str], RuleInfo] = field(default_factory=dict)
    messages: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    states: dict[tuple[str, str], tuple[bytes, int]] = field(default_factory=dict)
    seen: dict[tuple[str, Any], int] = field(default_factory=dict)

    def drop_entity(self, path: str) -> None:
        parts: tuple[dict[Any, Any], ...] = (self.rules, self.messages, self.states, self.seen)
        for part in parts:
            for key in [key for key in part if key[0].partition("/")[0] == path]:
                del part[key]
        for shelf in [shelf for shelf in self.sequences if shelf.partition("/")[0] == path]:
            del self.sequences[shelf]
        self.entities.pop(path, None)


def read_back(connection: sqlite3.Connection) -> Model:
    return Model(
        {kept.path.lower(): tuple(kept) for kept in read_entities(connection)},
        {(subscription, rule.name.lower()): rule for subscription, rule in read_rules(connection)},
        {(shelf, message.sequence): facts(message) for shelf, message in read_messages(connection)},
        dict(read_sequences(connection)),
        {(shelf, session): (state, at) for shelf, session, state, at in read_session_states(connection)},
        {(path, message_id): at for path, message_id, at in read_seen(connection)},
    )


def section(code: int, value: Any) -> bytes:
    return encode(Described(ULong(code), value))


HEADERS = st.sampled_from([b"", section(0x70, [True]), section(0x70, [False, UByte(9), UInt(1000)]), section(0x70, [])])
ANNOTATIONS = st.sampled_from(
    [b"", section(0x72, {Symbol("mine"): 1, Symbol("x-opt-scheduled-enqueue-time"): Timestamp(1 << 42)})]
)
PROPERTIES = st.sampled_from([b"", section(0x73, ["id"]), section(0x73, [UUID(int=7), *[None] * 9, "session"])])
BODIES = st.sampled_from([b"", *(section(0x75, b"x" * size) for size in (0, 10, 5000))])
OCTETS = st.builds(lambda *parts: b"".join(parts), HEADERS, ANNOTATIONS, PROPERTIES, BODIES).filter(bool)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    message = parse_message(draw(OCTETS))
    message.sequence = draw(st.integers(1, 6))
    message.enqueued_at = draw(st.integers(0, 1 << 45))
    message.ttl = draw(st.none() | st.integers(1, 1 << 62))
    message.expires_at = draw(st.none() | st.integers(0, 1 << 62))
    message.scheduled_at = draw(st.none() | st.integers(0, 1 << 62))
    message.enqueue_sequence = draw(st.none() | st.integers(0, 1 << 62))
    message.delivery_count = draw(st.integers(0, 20))
    message.state = draw(st.sampled_from(MessageState))
    message.hops = draw(st.integers(0, 5))
    message.dead_letter_source = draw(st.none() | st.text())
    message.lock_token = draw(st.none() | st.just(b"token"))
    return message


PATHS = st.sampled_from(["orders", "other"])
SHELVES = st.builds(str.__add__, PATHS, st.sampled_from(["", DEAD_LETTERS, SCHEDULE]))
IDS = st.sampled_from(["a", "b", ULong(1), UUID(int=1), b"a"])
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("save_message"), SHELVES, messages()),
        st.tuples(st.just("drop_message"), SHELVES, st.integers(1, 6)),
        st.tuples(st.just("save_sequence"), SHELVES, st.integers(1, 1 << 62)),
        st.tuples(
            st.just("save_session_state"), SHELVES, IDS.filter(lambda i: type(i) is str), st.none() | st.binary()
        ),
        st.tuples(st.just("save_seen"), PATHS, IDS),
        st.tuples(st.just("drop_seen"), PATHS, IDS),
        st.tuples(st.just("save_entity"), PATHS, st.sampled_from([QueueDescription(), TopicDescription()])),
        st.tuples(st.just("drop_entity"), PATHS),
        st.tuples(
            st.just("save_rule"), PATHS, st.sampled_from(["$Default", "big"]), st.sampled_from(["a = 1", "b > 2"])
        ),
        st.tuples(st.just("drop_rule"), PATHS, st.sampled_from(["$default", "BIG"])),
        st.tuples(st.just("commit")),
        st.tuples(st.just("die")),
    ),
    max_size=40,
)


def tell(journal: SqliteJournal, model: Model, at: int, name: str, *arguments: Any) -> None:
    """The same to both."""
    match name, *arguments:
        case "save_message", shelf, message:
            journal.save_message(shelf, message)
            model.messages[shelf, message.sequence] = facts(message)
        case "drop_message", shelf, sequence:
            journal.drop_message(shelf, sequence)
            model.messages.pop((shelf, sequence), None)
        case "save_sequence", shelf, sequence:
            journal.save_sequence(shelf, sequence)
            model.sequences[shelf] = sequence
        case "save_session_state", shelf, session, state:
            journal.save_session_state(shelf, session, state, at)
            model.states.pop((shelf, session), None)
            if state is not None:
                model.states[shelf, session] = (state, at)
        case "save_seen", path, message_id:
            journal.save_seen(path, message_id, at)
            model.seen[path, message_id] = at
        case "drop_seen", path, message_id:
            journal.drop_seen(path, message_id)
            model.seen.pop((path, message_id), None)
        case "save_entity", path, description:
            times = (MOMENT, MOMENT + timedelta(seconds=at))
            journal.save_entity(path.title(), description, *times)
            model.entities[path] = (path.title(), description, *times)
        case "drop_entity", path:
            journal.drop_entity(path)
            model.drop_entity(path)
        case "save_rule", path, rule_name, expression:
            rule = RuleInfo(rule_name, RuleDescription(SqlFilter(expression)), MOMENT)
            journal.save_rule(path, rule)
            model.rules[path, rule_name.lower()] = rule
        case "drop_rule", path, rule_name:
            journal.drop_rule(path, rule_name)
            model.rules.pop((path, rule_name.lower()), None)


@settings(max_examples=150, deadline=None)
@given(OPERATIONS)
def test_what_was_committed_is_read_back_and_nothing_else(operations: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal, model, committed = SqliteJournal(Path(folder)), Model(), Model()
        for at, (name, *arguments) in enumerate([*operations, ("commit",), ("die",)]):
            if name == "commit":
                journal.commit()
                committed = deepcopy(model)
            elif name == "die":
                journal.close()
                model = deepcopy(committed)
                journal = SqliteJournal(Path(folder))
                assert read_back(journal.connection) == model
            else:
                tell(journal, model, at, name, *arguments)
        journal.close()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SqliteJournal]:
    with closing(SqliteJournal(tmp_path)) as opened:
        yield opened


def reopened(journal: SqliteJournal, folder: Path) -> Model:
    journal.close()
    with closing(open_data(folder)) as connection:
        return read_back(connection)


def message(sequence: int) -> Message:
    made = parse_message(section(0x75, b"body"))
    made.sequence = sequence
    return made


def test_a_message_is_kept_as_it_is_at_the_commit(journal: SqliteJournal, tmp_path: Path) -> None:
    kept = message(1)
    journal.save_message("q", kept)
    kept.delivery_count = 3
    journal.commit()
    assert reopened(journal, tmp_path).messages["q", 1]["delivery_count"] == 3


def test_nothing_of_a_message_is_forgotten(journal: SqliteJournal, tmp_path: Path) -> None:
    kept = parse_message(
        section(0x70, [True, UByte(9), UInt(5)])
        + section(0x72, {Symbol("x-opt-scheduled-enqueue-time"): Timestamp(6)})
        + section(0x73, ["id", *[None] * 9, "session"])
    )
    kept.sequence, kept.enqueue_sequence, kept.enqueued_at, kept.expires_at = 1, 2, 3, 4
    kept.delivery_count, kept.state, kept.hops, kept.dead_letter_source = 7, MessageState.DEFERRED, 8, "from"
    fresh = facts(Message(0))
    assert [name for name, value in facts(kept).items() if value == fresh[name]] == []  # also none that came later
    journal.save_message("q", kept)
    journal.commit()
    assert reopened(journal, tmp_path).messages["q", 1] == facts(kept)


def test_a_message_that_comes_and_goes_within_a_turn_is_never_written(journal: SqliteJournal, tmp_path: Path) -> None:
    journal.save_message("q", message(1))
    journal.commit()
    log = tmp_path / f"{FILE}-wal"
    before = log.read_bytes()
    journal.save_message("q", message(2))
    journal.drop_message("q", 2)
    journal.commit()
    assert log.read_bytes() == before


def test_an_entity_made_again_in_the_same_turn_has_nothing_of_the_old_one(
    journal: SqliteJournal, tmp_path: Path
) -> None:
    journal.save_entity("Q", QueueDescription(), MOMENT, MOMENT)
    journal.save_message("q", message(1))
    journal.save_sequence("q", 1)
    journal.commit()
    journal.drop_entity("q")
    journal.save_entity("q", QueueDescription(max_delivery_count=3), MOMENT, MOMENT)
    journal.save_message("q" + DEAD_LETTERS, message(5))
    journal.commit()
    kept = reopened(journal, tmp_path)
    assert kept.entities == {"q": ("q", QueueDescription(max_delivery_count=3), MOMENT, MOMENT)}
    assert list(kept.messages) == [("q" + DEAD_LETTERS, 5)]
    assert kept.sequences == {}


def test_the_order_in_which_ids_were_seen_is_kept(journal: SqliteJournal, tmp_path: Path) -> None:
    for at, message_id in enumerate(["z", "a", "m", "z"]):
        journal.save_seen("q", message_id, at)
        journal.commit()
        if at == 2:
            journal.drop_seen("q", "z")
    assert list(reopened(journal, tmp_path).seen.items()) == [(("q", "a"), 1), (("q", "m"), 2), (("q", "z"), 3)]


def test_a_commit_that_fails_keeps_nothing_and_ends_the_journal(journal: SqliteJournal, tmp_path: Path) -> None:
    journal.save_message("q", message(1))
    journal.commit()
    journal.save_message("q", message(2))
    journal.save_message("q", message(1 << 40))  # has no key
    with pytest.raises(OSError, match="what cannot be kept is not accepted: sequence number"):
        journal.commit()
    with pytest.raises(OSError, match="what cannot be kept"):
        journal.commit()
    assert list(reopened(journal, tmp_path).messages) == [("q", 1)]


def test_a_full_disk_fails_the_commit(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path)
    journal.connection.execute("PRAGMA max_page_count = 20")
    for sequence in range(10_000):
        journal.save_message("q", message(sequence))
    with pytest.raises(OSError, match="full"):
        journal.commit()
    assert reopened(journal, tmp_path).messages == {}


def test_every_commit_is_flushed_to_the_disk(tmp_path: Path) -> None:
    for _ in ("made", "opened"):
        with closing(open_data(tmp_path)) as connection:
            full = 2
            assert connection.execute("PRAGMA synchronous").fetchone() == (full,)
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    with closing(open_data(tmp_path)):
        for _ in range(2):
            with pytest.raises(UnusableData, match=f"{tmp_path} is in use by another emulator"):
                open_data(tmp_path)
    open_data(tmp_path).close()
    with closing(open_data(tmp_path)), pytest.raises(UnusableData, match="in use"):
        open_data(tmp_path)


def test_a_file_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    with closing(open_data(tmp_path)) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(UnusableData, match=f"has format {FORMAT + 1}, and this emulator knows only {FORMAT}"):
        open_data(tmp_path)


def test_a_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / FILE)) as connection:
        connection.execute("CREATE TABLE theirs (x)")
        connection.commit()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(UnusableData, match="no data file of this emulator"):
        open_data(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_a_file_that_is_no_database_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"not a database, but long enough to be looked at" * 100)
    with pytest.raises(UnusableData, match=r"is damaged \(file is not a database\).*Move the directory away"):
        open_data(tmp_path)


def test_a_file_with_damaged_pages_is_refused_with_advice(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path)
    for sequence in range(2000):
        journal.save_message("q", message(sequence))
    journal.commit()
    journal.close()
    octets = bytearray((tmp_path / FILE).read_bytes())
    octets[-4096 * 3 : -4096] = b"\xff" * 4096 * 2
    (tmp_path / FILE).write_bytes(octets)
    with pytest.raises(UnusableData, match="is damaged"):
        open_data(tmp_path)


def test_a_file_in_place_of_the_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(OSError, match="data"):
        open_data(tmp_path / "data")


@pytest.mark.parametrize("description", [QueueDescription(), TopicDescription(), SubscriptionDescription()])
def test_a_fresh_directory_keeps_every_kind_of_entity(
    description: Description, journal: SqliteJournal, tmp_path: Path
) -> None:
    journal.save_entity("Path", description, MOMENT, MOMENT)
    journal.commit()
    assert reopened(journal, tmp_path).entities == {"path": ("Path", description, MOMENT, MOMENT)}

"""Additions that hang, that fail, and that end after nobody waits for them any longer; and the thread that finishes files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from common.bus.ports import MessageUnwritable, OutOfTime, Provision, SendInterrupted
from common.check import Finding
from common.errors import EntityUnavailable, Throttled, TransientError
from common.message import Message
from router.outputs.file.forms import Form
from router.outputs.file.names import FileName, Staged, State
from router.outputs.file.roller import ENOUGH, Roller
from router.outputs.file.rolling import Limits
from router.outputs.file.sender import Cuts, FileSender
from router.outputs.file.settings import FileSettings
from router.outputs.file.store import Conversion

FOLDER = "shop/dbo.Persons"
NOW = datetime(2026, 11, 23, tzinfo=UTC)
LIMITS = Limits(1_000, timedelta(minutes=5))
SHORT = 0.05
LONG = 30.0


class FakeStore:
    """Lines in memory. An addition waits for `goes_on`, and raises `error`."""

    where = "nowhere"

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.error: Exception | None = None
        self.files: list[Staged] = []
        self.finished: list[tuple[Staged, bool]] = []

    def ready(self) -> None:
        self.goes_on.wait(LONG)
        if self.error is not None:
            raise self.error

    def journal(self, folder: str) -> FakeStore:
        return self

    def append(self, data: bytes, *, lsn: str, seconds: float) -> None:
        self.ready()
        self.lines += data.splitlines()

    def staged(self) -> Sequence[Staged]:
        if self.error is not None:
            raise self.error
        return list(self.files)

    def seal(self, staged: Staged) -> None:
        self.files[self.files.index(staged)] = file(staged.name.opened, "sealed", staged.name.ending)

    def finish(self, staged: Staged, conversion: Conversion | None) -> bool:
        self.finished.append((staged, conversion is None))
        if staged.size == 666:
            raise ValueError("a value of a row")
        self.files.remove(staged)
        return True

    def provide(self, how: Provision) -> None: ...

    def findings(self, provision: Provision) -> Iterator[Finding]:
        return iter(())

    def close(self) -> None: ...


def file(opened: datetime, state: State, ending: str = "jsonl", *, size: int = 1) -> Staged:
    return Staged(FOLDER, FileName(opened, "0" * 20, ending), state, size)


def messages(*numbers: int) -> list[Message]:
    return [Message(b"%d" % number, str(number)) for number in numbers]


@pytest.fixture
def store() -> FakeStore:
    return FakeStore()


def roller(store: FakeStore, clock: Callable[[], float] = lambda: 0.0) -> Roller:
    return Roller(store, Form(FileSettings(type="file", root="/")), LIMITS, now=lambda: NOW, clock=clock)


@pytest.fixture
def sender(store: FakeStore) -> Iterator[FileSender]:
    rolls = roller(store)
    yield FileSender(store, FOLDER, Form(FileSettings(type="file", root="/")), rolls, timeout=LONG)
    store.goes_on.set()
    store.error = None
    rolls.stop(LONG)


def hang(store: FakeStore, sender: FileSender, sent: Sequence[Message]) -> None:
    store.goes_on.clear()
    with pytest.raises(SendInterrupted) as raised:
        sender.send(sent, left=lambda: SHORT)
    assert raised.value.accepted == frozenset()


def test_an_addition_that_hangs_holds_up_the_next_one(store: FakeStore, sender: FileSender) -> None:
    hang(store, sender, messages(1, 2))
    hang(store, sender, messages(7))
    sender.close()
    assert store.lines == []

    store.goes_on.set()
    sender.send(messages(7))

    assert store.lines == [b"1", b"2", b"7"]


@pytest.mark.parametrize(
    "again", [[[1, 2, 3]], [[1, 2], [3]], [[1], [2], [3]], [[1, 2, 3, 4]], [[1], [2, 3, 4]]], ids=str
)
def test_what_was_added_after_all_is_not_added_again(
    store: FakeStore, sender: FileSender, again: list[list[int]]
) -> None:
    hang(store, sender, messages(1, 2, 3))
    sender.close()
    store.goes_on.set()

    for part in again:
        sender.send(messages(*part))

    assert store.lines == [b"%d" % each for each in range(1, 1 + max(again[-1]))]


def test_what_comes_instead_is_added(store: FakeStore, sender: FileSender) -> None:
    hang(store, sender, messages(1, 2))
    store.goes_on.set()

    sender.send(messages(2, 3))

    assert store.lines == [b"1", b"2", b"2", b"3"]


def test_an_addition_that_failed_late_is_made_again(store: FakeStore, sender: FileSender) -> None:
    hang(store, sender, messages(1))
    store.error = TransientError("gone")
    store.goes_on.set()
    with pytest.raises(SendInterrupted, match="gone"):
        sender.send(messages(1))
    store.error = None

    sender.send(messages(1))

    assert store.lines == [b"1"]


def test_errors_say_what_the_caller_must_know(store: FakeStore, sender: FileSender) -> None:
    store.error = Throttled("busy")
    with pytest.raises(SendInterrupted) as busy:
        sender.send(messages(1))
    store.error = EntityUnavailable("no right", hint="give it")
    with pytest.raises(EntityUnavailable, match="no right"):
        sender.send(messages(1))
    with pytest.raises(OutOfTime):
        sender.send(messages(1), left=lambda: 0.0)

    assert busy.value.throttled


def test_what_is_no_line_is_refused_behind_the_lines_before_it(store: FakeStore, sender: FileSender) -> None:
    with pytest.raises(MessageUnwritable) as raised:
        sender.send([*messages(1), Message(b"a secret", "2"), *messages(3)])

    assert (raised.value.at, raised.value.accepted) == (1, frozenset({0}))
    assert "secret" not in str(raised.value)
    assert store.lines == [b"1"]


def test_calls_can_be_cut(store: FakeStore) -> None:
    cuts, rolls = Cuts(), roller(store)
    sender = FileSender(store, FOLDER, Form(FileSettings(type="file", root="/")), rolls, timeout=LONG, cuts=cuts)
    store.goes_on.clear()

    def cut() -> None:
        cuts.count += 1

    timer = threading.Timer(0.05, cut)
    timer.start()
    with pytest.raises(SendInterrupted):
        sender.open()
    timer.join()
    store.goes_on.set()
    rolls.stop(LONG)


def test_complete_files_are_sealed_and_sealed_ones_finished(store: FakeStore) -> None:
    old, new, large = file(NOW - LIMITS.time, "open"), file(NOW, "open"), file(NOW, "open", size=1_000)
    store.files = [old, new, large]
    rolls = roller(store)

    rolls.look()

    assert store.files == [new]
    assert len(store.finished) == 2


def test_at_the_end_the_files_of_this_process_are_finished(store: FakeStore) -> None:
    store.files = [file(NOW, "open"), Staged("another", FileName(NOW, "0" * 20, "jsonl"), "open", 1)]
    rolls = roller(store)
    rolls.start(FOLDER)
    rolls.stop(LONG)

    assert [each.folder for each in store.files] == ["another"]


def test_a_file_that_cannot_be_read_is_named_once_and_holds_up_no_other(store: FakeStore) -> None:
    bad, unknown, good = file(NOW, "sealed", size=666), file(NOW, "sealed", "parquet"), file(NOW, "sealed", size=2)
    store.files = [bad, unknown, good]
    rolls = roller(store)

    with capture_logs() as logs:
        rolls.look()
        rolls.look()

    assert store.files == [bad, unknown]
    assert [(each["event"], each["log_level"]) for each in logs] == [("file not finished", "error")] * 2
    assert "value of a row" not in str(logs)


def test_when_no_file_can_be_finished_for_long_nothing_more_is_accepted(store: FakeStore) -> None:
    now = [0.0]
    rolls = roller(store, clock=lambda: now[0])
    store.error = TransientError("full")
    with capture_logs() as logs:
        rolls.look()
        now[0] = ENOUGH
        rolls.look()
        rolls.check(FOLDER)
        now[0] += 1
        with pytest.raises(TransientError, match="no file could be finished"):
            rolls.check(FOLDER)
        store.error = None
        rolls.look()
    rolls.check(FOLDER)

    assert [each["event"] for each in logs] == ["files cannot be finished", "files are finished again"]


def test_a_file_that_cannot_be_finished_holds_up_its_own_folder_alone(store: FakeStore) -> None:
    now = [0.0]
    rolls = roller(store, clock=lambda: now[0])
    bad, good = file(NOW, "sealed"), file(NOW, "sealed")
    bad, good = replace(bad, folder="d/bad"), replace(good, folder="d/good")
    store.files += [bad, good]
    finish = store.finish

    def finishing(staged: Staged, conversion: Conversion | None) -> bool:
        if staged is bad:
            raise TransientError("a plain file is where a folder must be")
        return finish(staged, conversion)

    store.finish = finishing  # type: ignore[method-assign]
    with capture_logs() as logs:
        rolls.look()
        now[0] = ENOUGH + 1
        rolls.look()
    assert store.files == [bad]
    rolls.check("d/good")
    with pytest.raises(TransientError, match="d/bad"):
        rolls.check("d/bad")
    assert [each["event"] for each in logs] == ["files cannot be finished"]

"""The journal of a replay: what may have been sent is known after a kill between any two of its lines."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from common.errors import PermanentError
from desk.dead_letters import journal as module
from desk.dead_letters.journal import Journal, Note, notes_of
from desk.desk import Conflict


@pytest.fixture
def full() -> Iterator[Callable[[int | None], None]]:
    """The disk takes no file that is longer than so many octets; None: it has room again."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handled = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda most: resource.setrlimit(resource.RLIMIT_FSIZE, before if most is None else (most, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handled)


def test_it_knows_what_was_not_finished(tmp_path: Path) -> None:
    with Journal(tmp_path, "queue") as journal:
        journal.intend([(1, "a"), (2, "b"), (3, "c")], 100.0)
        journal.sent([1, 2])
        journal.done([1])
    expected = {2: Note("b", 100.0, True), 3: Note("c", 100.0, False)}
    assert notes_of(tmp_path, "queue") == expected
    with Journal(tmp_path, "queue") as journal:
        assert journal.notes == expected
        journal.intend([(2, "b"), (3, "c"), (4, "d")], 900.0)
        assert journal.notes[3].at == 100.0, "the first time counts"
    assert notes_of(tmp_path, "another") == {}


def test_a_kill_between_any_two_octets_is_read(tmp_path: Path) -> None:
    with Journal(tmp_path, "queue") as journal:
        journal.intend([(1, "a")], 1.0)
        journal.sent([1])
        journal.intend([(2, "b")], 2.0)
        whole, path = journal.path.read_bytes(), journal.path
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        with Journal(tmp_path, "queue") as journal:
            assert set(journal.notes) <= {1, 2}
            assert 1 in journal.notes or length < whole.index(b"\n") + 1


def test_only_one_process_has_it(tmp_path: Path) -> None:
    held = "dead letters of q at bus:5671: another process of this machine replays them now"
    key = "bus:5671 dead letters of q"
    with Journal(tmp_path, key), pytest.raises(Conflict, match=f"^{held}"), Journal(tmp_path, key):
        pass


def test_where_it_cannot_be_written_nothing_is_sent(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PermanentError, match="journal"), Journal(tmp_path / "file" / "replays", "queue"):
        pass


def test_finished_batches_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("desk.dead_letters.journal._GROWN", 50_000)
    with Journal(tmp_path, "queue") as journal:
        for batch in range(60):
            numbers = range(batch * 100, batch * 100 + 100)
            journal.intend([(number, f"{number:032x}") for number in numbers], 1.0)
            journal.sent(list(numbers))
            journal.done(list(numbers))
        assert journal.notes == {}
        assert journal.path.stat().st_size < 60_000


def test_what_is_doubtful_is_kept_until_a_run_has_reported_it(tmp_path: Path) -> None:
    with Journal(tmp_path, "queue") as journal:
        journal.intend([(1, "a"), (2, "b")], 1.0)
        journal.doubt([1, 2])
        journal.doubt([2])
        journal.sent([1, 2])
        journal.done([1, 2])
    for _ in range(2):  # the second one reads what the first has written anew
        with Journal(tmp_path, "queue") as journal:
            assert (journal.doubtful, journal.notes) == ({1, 2}, {})
    with Journal(tmp_path, "queue") as journal:
        journal.reported()
    with Journal(tmp_path, "queue") as journal:
        assert journal.doubtful == set()


def test_nothing_is_begun_where_the_disk_is_about_to_be_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Journal(tmp_path, "queue") as journal:
        journal.has_room()
        monkeypatch.setattr(module, "ROOM", 1 << 62)
        with pytest.raises(PermanentError, match="free for the journal"):
            journal.has_room()


def test_a_disk_that_is_full_says_so_and_locks_nothing(tmp_path: Path, full: Callable[[int | None], None]) -> None:
    numbers = list(range(50))

    def send() -> None:
        with Journal(tmp_path, "queue") as journal:
            journal.intend([(number, "x" * 32) for number in numbers], 1.0)
            full(journal.path.stat().st_size + 100)
            journal.sent(numbers)

    with pytest.raises(PermanentError, match="journal") as raised:
        send()
    assert "free space" in (raised.value.hint or "")
    full(None)
    with Journal(tmp_path, "queue") as journal:
        assert [note.sent for note in journal.notes.values()] == [False] * 50


def test_a_line_that_was_cut_short_spoils_none_after_it(tmp_path: Path, full: Callable[[int | None], None]) -> None:
    with Journal(tmp_path, "queue") as journal:
        journal.intend([(1, "a"), (2, "b")], 1.0)
        full(journal.path.stat().st_size + 5)
        with pytest.raises(PermanentError):
            journal.sent([1])
        full(None)
        journal.done([2])
    assert set(notes_of(tmp_path, "queue")) == {1}


def _open_files(folder: Path) -> list[str]:
    """Of this process, below the folder: what other threads open and close meanwhile is elsewhere."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it was closed since it was listed
            found.append(str(entry.readlink()))
    return sorted(name for name in found if name.startswith(str(folder)))


def test_a_disk_that_is_full_while_it_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: Callable[[int | None], None]
) -> None:
    with Journal(tmp_path, "queue") as journal:
        journal.intend([(number, "x" * 32) for number in range(50)], 1.0)
        monkeypatch.setattr(module, "_GROWN", 1000)

        def refuse(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", refuse)
            opened = _open_files(tmp_path)
            with pytest.raises(PermanentError, match="journal"):
                journal.done([0])
            assert _open_files(tmp_path) == opened
        assert not journal.path.with_suffix(".new").exists()
        journal.sent([1])
    assert 0 not in notes_of(tmp_path, "queue")
    assert notes_of(tmp_path, "queue")[1].sent
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", refuse)
        with pytest.raises(PermanentError, match="journal"), Journal(tmp_path, "queue"):
            pass
    with Journal(tmp_path, "queue") as journal:
        assert len(journal.notes) == 49


def test_a_journal_that_makes_no_sense_locks_nothing(tmp_path: Path) -> None:
    Journal(tmp_path, "queue").path.write_text('{"next": [[1]]}\n')
    for _ in range(2):
        with pytest.raises(PermanentError, match="journal"), Journal(tmp_path, "queue"):
            pass

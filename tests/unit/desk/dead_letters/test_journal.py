"""The journal of a replay: what may have been sent is known after a kill between any two of its lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.errors import PermanentError
from desk.dead_letters import journal as module
from desk.dead_letters.journal import Journal, Note, notes_of
from desk.desk import Conflict


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
    with Journal(tmp_path, "queue"), pytest.raises(Conflict, match="another process"), Journal(tmp_path, "queue"):
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

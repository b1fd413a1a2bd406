"""Files in a directory: what processes that were killed leave, and what several of them do to one folder."""

from __future__ import annotations

import errno
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from common.errors import EntityMissing, EntityUnavailable, TransientError
from router.outputs.file.local.journal import LocalJournal
from router.outputs.file.local.locking import FolderLock
from router.outputs.file.local.store import LocalStore
from router.outputs.file.names import OPEN_ROOM, parsed
from router.outputs.file.rolling import Limits

FOLDER = "shop/dbo.Persons"
LSN = "0000003600000b200003"
LIMITS = Limits(1_000, timedelta(minutes=5))
LONG = 30.0


def store(root: Path, ending: str = "jsonl") -> LocalStore:
    return LocalStore(root, ending=ending, limits=LIMITS, durably=False)


def add(journal: LocalJournal, *lines: bytes) -> None:
    journal.append(b"".join(line + b"\n" for line in lines), lsn=LSN, seconds=LONG)


def open_files(root: Path) -> list[Path]:
    return sorted(path for path in (root / OPEN_ROOM / FOLDER).iterdir() if parsed(path.name))


def finished(root: Path) -> list[Path]:
    return sorted((root / FOLDER).rglob("*.jsonl")) if (root / FOLDER).exists() else []


def finish_all(root: Path) -> None:
    of = store(root)
    for staged in of.staged():
        if staged.state == "open":
            of.seal(staged)
    for staged in of.staged():
        assert of.finish(staged, None)


def test_lines_of_several_processes_are_in_one_file_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    one, two = store(tmp_path).journal(FOLDER), store(tmp_path).journal(FOLDER)

    add(one, b"1", b"2")
    add(two, b"3")
    add(one, b"4")

    (path,) = open_files(tmp_path)
    assert path.read_bytes() == b"1\n2\n3\n4\n"
    assert path.name.endswith(f"-{LSN}.jsonl.open")
    one.close()
    two.close()


def test_nothing_is_added_to_a_sealed_file_by_a_process_that_had_it_open(tmp_path: Path) -> None:
    one, two = store(tmp_path).journal(FOLDER), store(tmp_path).journal(FOLDER)
    add(one, b"1")
    add(two, b"2")
    finish_all(tmp_path)

    add(one, b"3")
    add(two, b"4")

    (path,) = open_files(tmp_path)
    assert path.read_bytes() == b"3\n4\n"
    (done,) = finished(tmp_path)
    assert done.read_bytes() == b"1\n2\n"
    assert done.relative_to(tmp_path / FOLDER).parent == Path(f"{datetime.now(UTC):%Y/%m/%d}")
    assert path.name > done.name
    one.close()
    two.close()


def test_a_file_is_sealed_at_its_size(tmp_path: Path) -> None:
    complete: list[bool] = []
    journal = LocalJournal(tmp_path, FOLDER, "jsonl", limits=LIMITS, complete=lambda: complete.append(True))

    for number in range(25):
        add(journal, b"%099d" % number)
    journal.close()
    finish_all(tmp_path)

    assert [path.stat().st_size for path in finished(tmp_path)] == [1_000, 1_000, 500]
    assert complete == [True, True]
    assert b"".join(path.read_bytes() for path in finished(tmp_path)) == b"".join(b"%099d\n" % n for n in range(25))


def test_a_file_is_sealed_at_its_age(tmp_path: Path) -> None:
    now = [datetime.now(UTC)]
    journal = LocalJournal(tmp_path, FOLDER, "jsonl", limits=LIMITS, now=lambda: now[0])
    add(journal, b"1")
    now[0] += LIMITS.time
    add(journal, b"2")
    journal.close()

    assert [path.suffix for path in open_files(tmp_path)] == [".sealed", ".open"]


@pytest.mark.parametrize(
    ("left", "kept"),
    [
        (b'{"n":1}\n{"n":', b'{"n":1}\n'),
        (b'{"n":', b""),
        (b'{"n":1}\n\0\0\0\0', b'{"n":1}\n'),
        (b'{"n":1}\n\0\0\0\0\n{"n":3}\n', b'{"n":1}\n'),
        (b'{"n":1}\n{"n"\0\0\n', b'{"n":1}\n'),
    ],
)
def test_what_a_process_or_a_machine_left_in_the_middle_is_cut(tmp_path: Path, left: bytes, kept: bytes) -> None:
    add(dead := store(tmp_path).journal(FOLDER), b"0")
    dead.close()
    (path,) = open_files(tmp_path)
    path.write_bytes(left)

    add(journal := store(tmp_path).journal(FOLDER), b"next")
    journal.close()

    assert path.read_bytes() == kept + b"next\n"


def test_what_another_process_left_in_the_middle_is_cut_while_the_file_is_open_here(tmp_path: Path) -> None:
    journal = store(tmp_path).journal(FOLDER)
    add(journal, b"1")
    (path,) = open_files(tmp_path)
    with path.open("ab") as other:
        other.write(b"2\n" + b"x" * 500)

    add(journal, b"3")

    assert path.read_bytes() == b"1\n2\n3\n"
    journal.close()


def test_a_sealed_file_ends_with_a_whole_line_and_an_empty_one_is_removed(tmp_path: Path) -> None:
    add(journal := store(tmp_path).journal(FOLDER), b"1")
    journal.close()
    (path,) = open_files(tmp_path)
    path.write_bytes(b"1\n2")
    finish_all(tmp_path)
    assert [done.read_bytes() for done in finished(tmp_path)] == [b"1\n"]

    add(journal := store(tmp_path).journal(FOLDER), b"2")
    journal.close()
    (path,) = open_files(tmp_path)
    path.write_bytes(b"torn")
    (staged,) = store(tmp_path).staged()
    store(tmp_path).seal(staged)

    assert store(tmp_path).staged() == []


def test_a_file_of_another_format_is_sealed(tmp_path: Path) -> None:
    add(before := store(tmp_path, "parquet").journal(FOLDER), b"1")
    before.close()
    add(after := store(tmp_path).journal(FOLDER), b"2")
    after.close()

    assert [(each.name.ending, each.state) for each in store(tmp_path).staged()] == [
        ("parquet", "sealed"),
        ("jsonl", "open"),
    ]


def test_finishing_twice_leaves_one_file(tmp_path: Path) -> None:
    add(journal := store(tmp_path).journal(FOLDER), b"1")
    journal.close()
    (staged,) = store(tmp_path).staged()
    store(tmp_path).seal(staged)
    (sealed,) = store(tmp_path).staged()
    path = tmp_path / OPEN_ROOM / FOLDER / sealed.name.staged("sealed")
    lines = path.read_bytes()

    def upper(read: object, write: object) -> None:
        write.write(read.read().upper())  # type: ignore[attr-defined]

    assert store(tmp_path).finish(sealed, upper)
    path.write_bytes(lines)  # as if the process had been killed before it removed the lines
    assert store(tmp_path).finish(sealed, upper)
    assert not store(tmp_path).finish(sealed, upper)

    assert len(finished(tmp_path)) == 1
    assert store(tmp_path).staged() == []


def test_a_full_disk_leaves_no_half_of_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = store(tmp_path).journal(FOLDER)
    add(journal, b"1")

    write = os.write

    def full(fd: int, data: bytes) -> int:
        if len(data) > 3:
            return write(fd, data[:3])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(TransientError, match="No space left on device") as raised:
            add(journal, b"22222")

    assert "free space" in str(raised.value.hint)
    add(journal, b"3")
    (path,) = open_files(tmp_path)
    assert path.read_bytes() == b"1\n3\n"
    journal.close()


def test_a_file_that_could_not_be_flushed_gets_no_further_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = LocalJournal(tmp_path, FOLDER, "jsonl", limits=LIMITS)

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr("router.outputs.file.local.journal.sync", broken)
        with pytest.raises(TransientError, match="Input/output error"):
            add(journal, b"1")
    add(journal, b"1")
    journal.close()

    assert [path.suffix for path in open_files(tmp_path)] == [".sealed", ".open"]


def test_a_lock_that_another_holds_is_waited_for_no_longer_than_told(tmp_path: Path) -> None:
    journal = store(tmp_path).journal(FOLDER)
    add(journal, b"1")
    other = FolderLock(tmp_path / OPEN_ROOM / FOLDER)
    with other.held(LONG), pytest.raises(TransientError, match="another process holds its lock"):
        journal.append(b"2\n", lsn=LSN, seconds=0.05)

    add(journal, b"3")
    (path,) = open_files(tmp_path)
    assert path.read_bytes() == b"1\n3\n"
    journal.close()
    other.close()


def test_a_lock_whose_file_was_deleted_is_taken_again(tmp_path: Path) -> None:
    one, two = store(tmp_path).journal(FOLDER), store(tmp_path).journal(FOLDER)
    add(one, b"1")
    (tmp_path / OPEN_ROOM / FOLDER / "lock").unlink()
    add(two, b"2")
    held, over = threading.Event(), threading.Event()
    lock = FolderLock(tmp_path / OPEN_ROOM / FOLDER)

    def hold() -> None:
        with lock.held(LONG):
            held.set()
            over.wait(LONG)

    holder = threading.Thread(target=hold)
    holder.start()
    held.wait(LONG)
    with pytest.raises(TransientError):
        one.append(b"3\n", lsn=LSN, seconds=0.05)
    over.set()
    holder.join()
    add(one, b"4")

    (path,) = open_files(tmp_path)
    assert path.read_bytes() == b"1\n2\n4\n"
    for each in (one, two, lock):
        each.close()


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    journal = store(gone).journal(FOLDER)

    for call in (store(gone).ready, lambda: add(journal, b"1")):
        with pytest.raises(EntityMissing, match="gone") as raised:
            call()
        assert "create" in str(raised.value.hint)
    assert not gone.exists()


def test_a_file_in_place_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(EntityUnavailable, match="not a directory"):
        store(tmp_path / "file").ready()
    with pytest.raises(EntityMissing):
        store(tmp_path / "file" / "below").ready()


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    add(journal := store(tmp_path).journal(FOLDER), b"1")
    journal.close()
    (tmp_path / OPEN_ROOM / FOLDER / "notes.txt").write_text("mine")
    finish_all(tmp_path)

    assert (tmp_path / OPEN_ROOM / FOLDER / "notes.txt").read_text() == "mine"

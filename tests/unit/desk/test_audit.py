"""The audit log: no line is lost, whoever writes beside it, and what cannot be kept refuses the change."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

import desk.audit
from common.errors import ConfigurationError, PermanentError
from desk.audit import AuditFile, default_place
from desk.desk import Actor

WHO = Actor("ada", "command", "r1")


def numbers(audit: AuditFile, most: int = 1000) -> list[int]:
    found: list[int] = []
    after: str | None = None
    while True:
        page = audit.lines(after=after, most=most)
        found += [line.details["n"] for line in page.items]
        after = page.next
        if after is None:
            return found


@pytest.mark.parametrize("most", [1, 3, 7, 100])
def test_lines_come_newest_first_over_rotated_files(tmp_path: Path, most: int) -> None:
    audit = AuditFile(tmp_path / "state" / "audit.jsonl", rotate_bytes=600)
    for number in range(20):
        audit.write(WHO, "offset.move", "dbo.Persons", "begun", reason="because", n=number)
    assert len(list((tmp_path / "state").glob("audit.jsonl.0*"))) > 2
    assert numbers(audit, most) == list(range(19, -1, -1))


def test_a_page_goes_on_where_it_was_although_the_file_was_rotated_meanwhile(tmp_path: Path) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl", rotate_bytes=1500)
    for number in range(6):
        audit.write(WHO, "a", "t", "done", n=number)
    first = audit.lines(after=None, most=2)
    for number in range(6, 30):
        audit.write(WHO, "a", "t", "done", n=number)
    rest = audit.lines(after=first.next, most=100)
    assert [line.details["n"] for line in (*first.items, *rest.items)] == [5, 4, 3, 2, 1, 0]


def test_a_line_that_a_crash_has_cut_short_costs_no_other(tmp_path: Path) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl")
    audit.write(WHO, "a", "t", "done", n=1)
    with audit.path.open("ab") as file:
        file.write(b'{"at": "20')
    audit.write(WHO, "a", "t", "done", n=2)
    assert numbers(audit) == [2, 1]


def test_a_page_is_limited_in_bytes_and_the_next_goes_on(tmp_path: Path) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl")
    for number, length in enumerate([10, 400_000, 400_000, 400_000, 1_500_000, 10, 10]):
        audit.write(WHO, "a", "t", "done", n=number, said="x" * length)
    pages, after = list[list[int]](), None
    while not pages or after is not None:
        page = audit.lines(after=after, most=100)
        pages.append([line.details["n"] for line in page.items])
        after = page.next
    assert pages == [[6, 5], [4], [3, 2], [1, 0]]


@pytest.mark.parametrize("where", [0, 2, 4])
@pytest.mark.parametrize("size", [desk.audit.LONGEST_BYTES + 1, desk.audit.LONGEST_BYTES * 3 + 65_535])
def test_a_line_of_any_length_and_depth_costs_no_other(tmp_path: Path, where: int, size: int) -> None:
    audit = AuditFile(tmp_path / "audit.jsonl")
    for number in range(5):
        if number == where:
            with audit.path.open("ab") as file:
                file.write(b"[" * size + b"\n" + b"[" * 100_000 + b"\n")
        audit.write(WHO, "a", "t", "done", n=number)
    assert numbers(audit, most=2) == [4, 3, 2, 1, 0]


def test_many_writers_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"

    def write(first: int) -> None:
        audit = AuditFile(path, rotate_bytes=2000)
        for number in range(first, first + 25):
            audit.write(WHO, "a", "t", "done", n=number)

    threads = [threading.Thread(target=write, args=(25 * each,)) for each in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers(AuditFile(path, rotate_bytes=2000))) == list(range(100))


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    audit = AuditFile(tmp_path / "new" / "audit.jsonl")
    audit.write(WHO, "a", "t", "done", n=1)
    assert stat.S_IMODE(audit.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(audit.path.parent.stat().st_mode) == 0o700


def test_a_place_that_cannot_be_written_refuses_the_change(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    audit = AuditFile(tmp_path / "file" / "audit.jsonl")
    with pytest.raises(PermanentError, match=r"audit\.jsonl.*--audit-file"):
        audit.prepare()
    with pytest.raises(PermanentError, match="without an audit log nothing is changed"):
        audit.write(WHO, "a", "t", "begun")


def test_a_place_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="not a place"):
        AuditFile(tmp_path / "audit.jsonl").lines(after="../../etc", most=1)


def test_where_it_lies() -> None:
    assert default_place({"DSTREAM_AUDIT_FILE": "/var/a.jsonl"}) == Path("/var/a.jsonl")
    assert default_place({"XDG_STATE_HOME": "/s"}) == Path("/s/dstream/audit.jsonl")
    assert default_place({}).parts[-4:] == (".local", "state", "dstream", "audit.jsonl")

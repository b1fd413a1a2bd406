from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from common.message import Message, Property
from router.outputs.file.names import NO_LSN, FileName, following, lsn_of, parsed
from router.outputs.file.rolling import Limits

NOW = datetime(2026, 11, 23, 3, 4, 5, 123_999, UTC)
LSN = "0000003600000b200003"
NAME = FileName(datetime(2026, 11, 23, 3, 4, 5, 123_000, UTC), LSN, "jsonl.gz")


def test_a_name_says_when_its_file_was_opened_and_where_it_begins() -> None:
    made = following(None, now=NOW, lsn=LSN, ending="jsonl.gz")

    assert str(made) == f"20261123T030405123Z-{LSN}.jsonl.gz"
    assert made == NAME
    assert made.day == "2026/11/23"


@pytest.mark.parametrize("state", ["open", "sealed"])
def test_a_name_is_read_as_it_was_written(state: str) -> None:
    assert parsed(f"{NAME}.{state}") == (NAME, state)
    assert parsed(str(NAME)) == (NAME, None)


@pytest.mark.parametrize(
    "text",
    ["lock", "head", "", f"20269923T030405123Z-{LSN}.jsonl", f"x{NAME}", f"{NAME}.tmp", "20261123T030405123Z-12.jsonl"],
)
def test_other_names_are_not_read(text: str) -> None:
    assert parsed(text) is None


@pytest.mark.parametrize("back", [timedelta(0), timedelta(seconds=1), timedelta(days=400)])
def test_names_rise_when_the_clock_is_set_back(back: timedelta) -> None:
    first = following(None, now=NOW, lsn=LSN, ending="jsonl")
    second = following(first, now=NOW - back, lsn=NO_LSN, ending="jsonl")

    assert str(second) > str(first)
    assert second.opened - first.opened == timedelta(milliseconds=1)


def test_names_sort_as_texts_and_as_values() -> None:
    names, last = [], None
    for moment in range(50):
        last = following(last, now=NOW + timedelta(hours=7) * moment, lsn=LSN, ending="jsonl")
        names.append(last)

    assert sorted(names) == names
    assert sorted(map(str, names)) == list(map(str, names))


@pytest.mark.parametrize(
    ("property_", "lsn"), [(LSN.upper(), LSN), ("", NO_LSN), ("x" * 20, NO_LSN), (7, NO_LSN), (None, NO_LSN)]
)
def test_the_lsn_is_that_of_the_message(property_: str | int | None, lsn: str) -> None:
    held = {} if property_ is None else {Property.LSN: property_}

    assert lsn_of(Message(b"{}", "1", application_properties=held)) == lsn


@pytest.mark.parametrize(
    ("age", "size", "reached"),
    [
        (timedelta(0), 0, False),
        (timedelta(minutes=5) - timedelta(milliseconds=1), 99, False),
        (timedelta(0), 100, True),
        (timedelta(minutes=5), 0, True),
        (-timedelta(minutes=4), 0, False),
        (-timedelta(hours=1), 0, True),
    ],
)
def test_a_file_is_complete_at_its_size_or_age(age: timedelta, size: int, reached: bool) -> None:
    limits = Limits(100, timedelta(minutes=5))

    assert limits.reached(NAME, size, now=NAME.opened + age) is reached


def test_files_are_looked_for_ten_times_as_often_as_they_are_finished() -> None:
    looks = [Limits(1, timedelta(seconds=each)).look for each in (1, 60, 300, 86_400)]

    assert looks == [0.5, 6, 30, 30]

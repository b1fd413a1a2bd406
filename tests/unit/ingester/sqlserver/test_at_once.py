"""A column that is converted at once has the values that it has when it is converted one by one."""

from __future__ import annotations

from random import Random

import pytest

from common.errors import PermanentError
from ingester.sqlserver.pages import at_once
from ingester.sqlserver.values import datetime2, guid, projection

_BYTES = {0: 3, 1: 3, 2: 3, 3: 4, 4: 4, 5: 5, 6: 5, 7: 5}


def _guids(random: Random) -> list[bytes]:
    return [random.randbytes(16) for _ in range(50)] + [bytes(16), b"\xff" * 16]


def _moments(random: Random, scale: int) -> list[bytes]:
    last = 86_400 * 10**scale - 1
    moments = [(0, 0), (last, 3_652_058), *((random.randint(0, last), random.randint(0, 3_652_058)) for _ in range(50))]
    return [
        bytes((scale,)) + time.to_bytes(_BYTES[scale], "little") + day.to_bytes(3, "little") for time, day in moments
    ]


def test_identifiers() -> None:
    values = _guids(Random(1))
    assert at_once.converted(guid, values) == [guid(value) for value in values]
    assert at_once._guids(values) is not None
    known = projection("uniqueidentifier", decimals_as_numbers=False)
    assert known is not None
    assert at_once.converted(known.convert, [bytes.fromhex("33221100554477668899AABBCCDDEEFF")]) == [
        "00112233-4455-6677-8899-AABBCCDDEEFF"
    ]


@pytest.mark.parametrize("scale", range(8))
def test_times_of_every_scale(scale: int) -> None:
    values = _moments(Random(scale), scale)
    assert at_once.converted(datetime2, values) == [datetime2(value) for value in values]
    assert (at_once._datetimes(values) is not None) == (scale >= 5)


def test_a_column_of_several_scales_and_one_without_values() -> None:
    """An ALTER COLUMN leaves none behind, but nothing here depends on it."""
    values = [value for scale in range(8) for value in _moments(Random(9), scale)]
    assert at_once.converted(datetime2, values) == [datetime2(value) for value in values]
    assert at_once.converted(datetime2, []) == []


def test_nulls_stay_where_they_are() -> None:
    first, *rest = _guids(Random(2))
    values = [None, first, None, None, *rest, None]
    assert at_once.converted_or_null(guid, values) == [None if value is None else guid(value) for value in values]
    assert at_once.converted_or_null(guid, [None, None]) == [None, None]


@pytest.mark.parametrize(
    "octets",
    [
        b"\7" + (86_400 * 10**7).to_bytes(5, "little") + bytes(3),  # past midnight
        b"\7" + bytes(5) + (3_652_059).to_bytes(3, "little"),  # past the year 9999
        b"\4" + bytes(8),  # a scale of another length
        bytes(15),
    ],
)
def test_bytes_of_another_layout_are_refused_and_never_guessed(octets: bytes) -> None:
    with pytest.raises(PermanentError, match="have a layout that DStream does not know"):
        at_once.converted(datetime2, [octets])

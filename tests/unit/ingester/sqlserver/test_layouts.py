"""Constants in the bytes that values are read from."""

from __future__ import annotations

import struct

import pytest

from common.errors import PermanentError
from ingester.sqlserver.pages.joined import NUMBERS
from ingester.sqlserver.pages.layouts import SAMPLES, Layouts, refuse
from ingester.sqlserver.values import PROJECTIONS

KNOWN = b"".join(sample.octets for sample in SAMPLES.values())


@pytest.mark.parametrize("name", SAMPLES)
def test_the_bytes_of_a_constant_are_read_as_its_text(name: str) -> None:
    sample = SAMPLES[name]
    if name in NUMBERS:
        [value] = struct.unpack(f">{NUMBERS[name]}", sample.octets)
        assert str(value) == sample.text
        return
    read = str(PROJECTIONS[name].convert(sample.octets))
    assert read == sample.text.replace(" ", "T", 1).replace(" ", "")
    octets = sample.octets
    assert PROJECTIONS[name].select.startswith(("CONVERT(binary(", "CONVERT(varbinary("))
    assert f"binary({len(octets)})" in PROJECTIONS[name].select


def test_every_type_that_is_read_from_bytes_of_numbers_has_a_constant() -> None:
    converted = {
        name
        for name, how in PROJECTIONS.items()
        if "binary(" in how.select and not any(wide in how.select for wide in ("(max)", "(8000)"))
    }
    numbers = {name for name, letter in NUMBERS.items() if struct.calcsize(letter) > 1}
    assert converted | numbers == set(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_type_whose_bytes_differ_is_refused_and_no_other(name: str) -> None:
    """Turned about, or shifted: the length is the same."""
    for turned in (SAMPLES[name].octets[::-1], SAMPLES[name].octets[1:] + b"\0"):
        layouts = Layouts()
        octets = b"".join(turned if other == name else sample.octets for other, sample in SAMPLES.items())
        assert layouts.answer(("stamp", octets), 1) == ("stamp",)
        refuse(layouts.different, {"nvarchar", *SAMPLES} - {name})
        with pytest.raises(PermanentError, match=f"bytes of a {name} value have a layout"):
            refuse(layouts.different, {"nvarchar", name})


@pytest.mark.parametrize("octets", [b"", KNOWN[:-1], KNOWN + b"\0", None])
def test_bytes_of_another_length_leave_no_type_known(octets: bytes | None) -> None:
    layouts = Layouts()
    layouts.answer((None, octets), 1)
    refuse(layouts.different, {"bit", "nvarchar"})
    for name in SAMPLES:
        with pytest.raises(PermanentError):
            refuse(layouts.different, {name})


def test_a_server_is_asked_once() -> None:
    layouts = Layouts()
    assert "AS layouts" in layouts.question("a, b")
    assert layouts.answer((1, 2, KNOWN), 2) == (1, 2)
    assert layouts.question("a, b") == "SELECT a, b"
    assert layouts.answer((3, 4), 2) == (3, 4)
    refuse(layouts.different, SAMPLES)

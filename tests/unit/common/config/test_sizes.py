"""Sizes as people write them."""

from __future__ import annotations

import pytest

from common.config.sizes import Size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("64KB", 65_536), ("256MB", 268_435_456), ("256 mb", 268_435_456), (" 1GB ", 1_073_741_824), ("0MB", 0)],
)
def test_a_size_has_a_number_and_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "256", "MB", "-1MB", "1.5GB", "1TB", "256M", "1MBit", "²MB"])
def test_what_has_no_unit_or_another_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(ValueError, match="must be a size such as") as refused:
        parse_size(text)
    assert not text or text not in str(refused.value).replace("64MB", "").replace("1GB", "")


@pytest.mark.parametrize("text", ["64KB", "256MB", "3GB"])
def test_a_size_shows_as_it_is_written(text: str) -> None:
    assert str(parse_size(text)) == text == f"{parse_size(text)}"


def test_other_sizes_show_in_the_largest_whole_unit() -> None:
    assert [str(Size(each)) for each in (1, 1536, 1 << 31)] == ["1 bytes", "1536 bytes", "2GB"]

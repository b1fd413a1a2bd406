"""The manual's tables follow the declarations, and every declaration says what it is."""

from __future__ import annotations

from pathlib import Path

from dstream.reference import BEGIN, END, tables, with_tables

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_holds_the_settings_as_they_are_declared() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(BEGIN) == page.count(END) == 1
    assert with_tables(page) == page, "write it anew: python -m dstream.reference docs/configuration.md"


def test_every_setting_is_described_and_every_default_of_none_explained() -> None:
    rows = [line.split(" | ") for line in tables().splitlines() if line.startswith("| `")]
    assert len(rows) > 40
    for name, kind, default, *about in rows:
        assert kind
        assert len("".join(about)) > 10, name
        if default == "none":
            assert "None, the default" in "".join(about), name

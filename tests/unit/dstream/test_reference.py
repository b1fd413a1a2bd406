"""The manual's tables follow the declarations, and every declaration says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from common.config.bind import bind, read
from common.config.values import Block
from common.servicebus.settings import ServiceBusSettings
from dstream.config import load_both
from dstream.examples import EXAMPLES
from dstream.reference import (
    METRICS,
    SETTINGS,
    Described,
    blocks,
    marks,
    output_types,
    section,
    settings,
    settings_of,
    settings_of_output,
    updated,
)

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_page_holds_the_settings_as_they_are_declared() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [page.count(mark) for mark in marks(SETTINGS)] == [1, 1]
    assert updated(page) == page, "generate it again: python -m dstream.reference docs/configuration.md"


@pytest.mark.parametrize("kind", output_types())
def test_each_type_of_output_has_a_page_with_its_settings_as_they_are_declared(kind: str) -> None:
    path = PAGE.parent / "outputs" / f"{kind}.md"
    page = path.read_text(encoding="utf-8")
    assert [page.count(mark) for mark in marks(settings_of(kind))] == [1, 1]
    assert updated(page) == page, f"generate it again: python -m dstream.reference docs/outputs/{kind}.md"
    assert f"({kind}.md)" in (path.parent / "README.md").read_text(encoding="utf-8")


def test_only_what_is_between_the_marks_is_replaced() -> None:
    (begin, end), (other, _) = marks(SETTINGS), marks(METRICS)
    page = updated(f"before\n{begin}an old table\n{end}after\n")
    assert page.startswith(f"before\n{begin}\n### `ingester`\n")
    assert page.endswith(f"\n{end}after\n")
    assert "an old table" not in page
    assert other not in page
    assert updated("no marks\n") == "no marks\n"


def test_every_setting_is_described_and_every_default_of_none_explained() -> None:
    pages = [settings(), *map(settings_of_output, output_types())]
    rows = [line.split(" | ") for page in pages for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 40
    for name, kind, default, *about in rows:
        assert kind
        assert len("".join(about)) > 10, name
        if default == "none":
            assert "None, the default" in "".join(about), name


def test_settings_that_were_shown_before_are_linked_by_their_heading() -> None:
    first, again = (Described(f"router.{name}", "some_bus", ServiceBusSettings) for name in ("source", "output"))
    assert "| `namespace` |" in section(first, first)
    referred = "The settings of [`router.source` of type `some_bus`](#routersource-of-type-some_bus).\n"
    assert section(again, first) == f"### `router.output` of type `some_bus`\n\n{referred}"


def test_every_example_belongs_to_a_block() -> None:
    assert EXAMPLES.keys() <= {(block.path, block.kind) for block in blocks()}


@pytest.mark.parametrize(
    "block", [block for block in blocks() if (block.path, block.kind) in EXAMPLES], ids=lambda block: block.heading
)
def test_an_example_is_a_block_as_a_file_may_have_it(block: Described, tmp_path: Path) -> None:
    file = tmp_path / "example.hcl"
    file.write_text(EXAMPLES[block.path, block.kind], encoding="utf-8")
    [(name, _, entry)] = read(file, {}).root.entries
    assert name == block.path.rpartition(".")[2]
    assert isinstance(entry, Block)
    bound = bind(entry, cast(Any, block.model), unset="ignore")
    assert bound.problems == []
    if block.kind:
        assert next(value.data for key, _, value in entry.entries if key == "type") == block.kind  # type: ignore[union-attr]


def test_every_block_that_stands_alone_has_an_example() -> None:
    without = {block.heading for block in blocks() if (block.path, block.kind) not in EXAMPLES}
    assert without == {
        "`ingester.tables_overrides.overrides`",
        "`ingester.tables_overrides.overrides.snapshot`",
    }


def test_the_examples_of_both_stages_are_a_whole_file(tmp_path: Path) -> None:
    file = tmp_path / "dstream.hcl"
    file.write_text(EXAMPLES["ingester", ""] + EXAMPLES["router", ""], encoding="utf-8")
    bus = "Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=p;SharedAccessKey=k"
    environ = {f"DSTREAM_{stage}_CONNECTION_STRING": bus for stage in ("INGEST", "ROUTER")} | {
        "DSTREAM_DB_CONNECTION_STRING": "sqlserver://u:p@sql01:1433?database=shop",
        "DSTREAM_LOCKS_CONNECTION_STRING": "UseDevelopmentStorage=true",
    }
    ingester, router = load_both(file, environ)
    assert (ingester.locks.type, ingester.queue.name) == ("azure_blob", router.queue_name)
    assert (router.slots, router.subscriptions) == (16, ("billing", "search"))

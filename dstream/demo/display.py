"""What the demo prints: a live table while it runs, some messages, and the verdict. Decides nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from common.names import TableName
from dstream.demo.reading import Reader
from dstream.demo.schema import TABLES
from dstream.demo.verdict import Received, Verdict


def progress(
    title: str,
    committed: Mapping[TableName, int],
    ingested: Mapping[TableName, int],
    delivered: Mapping[TableName, int],
) -> Group:
    """The live table: changes committed, ingested and delivered for each table, and how many are on their way."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("table", min_width=16)
    for name in ("committed", "ingested", "delivered", "behind"):
        table.add_column(name, justify="right", min_width=10, no_wrap=True)
    for each in TABLES:
        done, arrived = committed.get(each, 0), delivered.get(each, 0)
        table.add_row(each.key, str(done), str(ingested.get(each, 0)), str(arrived), str(max(0, done - arrived)))
    return Group(Text(title), table)


def messages(console: Console, received: Mapping[TableName, Sequence[Received]]) -> None:
    """One message of each topic as it arrived."""
    if not any(received.values()):
        return
    console.print("\n[bold]What arrived[/bold], one message of each topic:")
    for name in TABLES:
        if found := received.get(name):
            body = json.loads(found[-1].body)
            text = json.dumps(body, ensure_ascii=False)
            console.print(Text(f"  {text[:400]}{' ...' if len(text) > 400 else ''}", style="dim"), soft_wrap=True)


def verdict(console: Console, result: Verdict, facts: Sequence[tuple[str, str]], reader: Reader) -> None:
    """The counts that must be 0, for each table and in total, and the measurements."""
    console.print("\n[bold]Verdict[/bold]")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("table", min_width=16)
    for name in ("committed", "received", "lost", "duplicated", "out of order", "wrong"):
        table.add_column(name, justify="right", no_wrap=True)
    counts = ("committed", "received", "lost", "duplicated", "out_of_order", "wrong")
    rows: list[tuple[str, Sequence[int]]] = [
        (name.key, [getattr(found, count) for count in counts]) for name, found in result.tables.items()
    ]
    rows.append(("total", [result.total(count) for count in counts]))
    for label, numbers in rows:
        table.add_row(label, *(_cell(count, number) for count, number in zip(counts, numbers, strict=True)))
    console.print(table)
    for found in result.tables.values():
        for example in found.examples:
            console.print(Text(f"  {example}", style="red"), soft_wrap=True)
    console.print()
    for label, value in facts:
        console.print(f"{label:<36} {value}", highlight=False, soft_wrap=True)
    if result.good:
        console.print(f"\n[bold green]{reader.good}[/bold green]")
    else:
        console.print(f"\n[bold red]{reader.bad}[/bold red]")


def _cell(count: str, number: int) -> Any:
    bad = count not in ("committed", "received") and number
    return Text(str(number), style="bold red" if bad else "")

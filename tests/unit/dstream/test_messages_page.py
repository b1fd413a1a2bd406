"""The page about messages shows what is sent: each of its examples is a golden message, its tables are the contract in common/message.py, and the
consumer on it works."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from common.message import Body, Metadata, Property

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "messages.md").read_text(encoding="utf-8")
EXAMPLES = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
GOLDEN = {
    path.stem: path.read_text(encoding="utf-8").split("\n", 1)
    for path in sorted((ROOT / "tests" / "golden" / "messages").glob("*.txt"))
}


def test_the_examples_are_the_golden_messages() -> None:
    bodies: list[Any] = [json.loads(body) for body, _ in GOLDEN.values()]
    assert sorted(map(json.dumps, EXAMPLES)) == sorted(map(json.dumps, bodies))


def test_every_key_and_property_of_a_golden_message_is_in_a_table() -> None:
    rows = "\n".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("|"))
    for name, (body, envelope) in GOLDEN.items():
        properties = json.loads(envelope)
        names = {*json.loads(body)["metadata"], *properties, *properties["application_properties"]}
        for key in names - {"application_properties"}:
            assert f"`{key}`" in rows, f"{name}: {key}"


def table(heading: str) -> list[list[str]]:
    """The rows of all tables below a heading, cell by cell."""
    _, _, after = PAGE.partition(f"\n## {heading}\n")
    lines = [line for line in after.partition("\n## ")[0].splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [row for row in rows if row[0].startswith("`")]


def test_the_tables_of_the_body_are_the_contract() -> None:
    assert {row[0] for row in table("The body")} == {
        f"`{key}`" for key in (Body.__required_keys__ | Body.__optional_keys__)
    }
    rows = table("Metadata")
    assert len(rows) == len({row[0] for row in rows})
    assert {row[0] for row in rows if row[2] == "always"} == {f"`{key}`" for key in Metadata.__required_keys__}
    assert {row[0] for row in rows if row[2] != "always"} == {f"`{key}`" for key in Metadata.__optional_keys__}


def test_the_tables_of_properties_are_the_contract_with_the_values_of_the_insert() -> None:
    held = json.loads(GOLDEN["insert"][1])
    application = held.pop("application_properties")
    rows = {row[0].strip("`"): row[2].strip("`") for row in table("Properties of the message")}
    names = {value for name, value in vars(Property).items() if name.isupper()}
    absent = {Property.OVERSIZE, Property.SET_ASIDE, Property.REPLAYS, Property.REPLAY_OF, "traceparent"}
    assert set(rows) == {*held, *names, "traceparent"}
    assert rows == {**held, **application, **dict.fromkeys(absent, "")}


def consumer() -> Any:
    """The function on the page."""
    [source] = [text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def apply" in text]
    found: dict[str, Any] = {}
    exec(source, found)
    return found["apply"]


def test_the_snippets_of_the_page_are_python() -> None:
    for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        compile(text, "docs/messages.md", "exec")


@pytest.mark.parametrize("times", [1, 2])
def test_the_consumer_of_the_page_copies_a_table_though_changes_come_twice(times: int) -> None:
    apply, rows = consumer(), dict[tuple[object, ...], dict[str, object]]()
    insert, update, changed = (json.loads(GOLDEN[name][0]) for name in ("insert", "update", "update_with_before"))
    for body in [insert, update] * times:
        apply(rows, ["ID"], body)
    assert rows == {(180,): {"FirstName": "Diana", "ID": 180, "LastName": "Prince"}}
    changed["data"]["ID"] = 181  # the key itself is changed
    for _ in range(times):
        apply(rows, ["ID"], changed)
    assert list(rows) == [(181,)]
    assert rows[(181,)]["Biography"] == "a long text"
    deleted = json.loads(GOLDEN["delete_in_another_schema"][0])
    rows = {(7,): {"Order Id": 7, "Scan": "kept until now"}}
    for _ in range(times):
        apply(rows, ["Order Id"], deleted)
    assert rows == {}


def test_the_consumer_of_the_page_takes_rows_of_a_snapshot_and_gaps() -> None:
    apply, rows = consumer(), dict[tuple[object, ...], dict[str, object]]()
    for name in ("gap", "read", "insert", "schema", "read", "gap"):
        apply(rows, ["ID"], json.loads(GOLDEN[name][0]))
    assert rows == {(180,): {"FirstName": "Diana", "ID": 180, "LastName": "Prince"}}


def test_the_consumer_of_the_page_keeps_what_capture_does_not_have() -> None:
    rows: dict[tuple[object, ...], dict[str, object]] = {(180,): {"ID": 180, "Total": 5}}
    body = json.loads(GOLDEN["update"][0])
    body["metadata"]["Unavailable"] = ["Total"]
    consumer()(rows, ["ID"], body)
    assert rows == {(180,): {"FirstName": "Diana", "ID": 180, "LastName": "Prince", "Total": 5}}

"""The page about schemas shows what the commands print, and its consumer works."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from dstream.schemas.envelopes import document
from tests.unit.dstream.schemas.test_envelopes import COLUMNS, described
from tests.unit.ingester.task.test_encode import ENCODER, VERSION, change

PAGE = (Path(__file__).parents[3] / "docs" / "schemas.md").read_text(encoding="utf-8")


def schema() -> Any:
    """Of the table on the page about messages, without the column that only one of its examples has."""
    known = document(described(change("insert").table, VERSION), "dstream")
    return json.loads(json.dumps(known))


def test_the_row_on_the_page_is_what_the_command_prints() -> None:
    [shown] = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
    row = schema()["then"]["properties"]["data"]
    del row["properties"]["Biography"]
    assert shown == row
    assert set(shown["properties"]) == set(COLUMNS["dbo.Persons"]) - {"Biography"}
    assert f"--version {VERSION}" in PAGE


def test_the_consumer_on_the_page_finds_what_is_wrong() -> None:
    [source] = [text for text in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "def problems" in text]
    found: dict[str, Any] = {}
    exec(source, found)
    text, body = json.dumps(schema()), ENCODER.message(change("insert")).body
    assert found["problems"](text, body) == []
    [problem] = found["problems"](text, body.replace(b'"ID":180', b'"ID":"180"'))
    assert problem.startswith("$.data.ID: ")

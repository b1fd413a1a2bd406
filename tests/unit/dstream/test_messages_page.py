"""The page about messages shows what is sent: each of its examples is a golden message, and each key of those is explained."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

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

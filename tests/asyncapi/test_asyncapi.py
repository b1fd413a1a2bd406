"""AsyncAPI's own parser reads the document of `dstream asyncapi`, in every envelope, and refuses a wrong one."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dstream.schemas.asyncapi import Channel, Output, document
from dstream.schemas.envelopes import ENVELOPES
from tests.unit.dstream.schemas.test_asyncapi import CHANNELS

HERE = Path(__file__).parent
CACHE = HERE / ".cache"
_ERROR = 0
"""The parser's severity; others are advice."""


def parsed(documents: Sequence[Any]) -> list[Any]:
    """What the parser finds in each. Starting it takes seconds, so it is started once."""
    if not (CACHE / ".ready").exists() or shutil.which("node") is None:
        pytest.skip("AsyncAPI's parser is not set up: `make asyncapi` does it where Node.js is installed")
    done = subprocess.run(
        ["node", str(HERE / "validate.js"), str(CACHE)],
        input=json.dumps([json.dumps(each) for each in documents]),
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    found: list[Any] = json.loads(done.stdout)
    return found


def channels_in(envelope: str) -> tuple[Channel, ...]:
    """All in the native one; in the others a table, and the transactions."""
    return CHANNELS if envelope == "dstream" else CHANNELS[::2]


def errors(found: Any) -> list[Any]:
    return [each for each in found["diagnostics"] if each["severity"] == _ERROR]


def test_the_parser_finds_every_topic_in_every_envelope_and_refuses_what_is_wrong() -> None:
    written = [
        document(channels_in(envelope), Output("shop.servicebus.windows.net", envelope, release="1.0"))
        for envelope in ENVELOPES
    ]
    broken: Any = json.loads(json.dumps(written[0]))
    del broken["info"]["title"]
    *good, refused = parsed([*written, broken])
    for envelope, found in zip(ENVELOPES, good, strict=True):
        assert errors(found) == [], envelope
        channels = channels_in(envelope)
        assert sorted(found["channels"]) == sorted(channel.topic for channel in channels)
        assert found["messages"] == [True] * len(channels)
        assert found["operations"] == ["send"] * len(channels)
    assert errors(refused)

"""AsyncAPI's own parser reads the document of `dstream asyncapi`, in every envelope, and refuses a wrong one."""

from __future__ import annotations

import json
import shutil
import subprocess
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


def parsed(text: str) -> Any:
    if not (CACHE / ".ready").exists() or shutil.which("node") is None:
        pytest.skip("AsyncAPI's parser is not set up: `make asyncapi` does it where Node.js is installed")
    done = subprocess.run(
        ["node", str(HERE / "validate.js"), str(CACHE)],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return json.loads(done.stdout)


def written(envelope: str, channels: tuple[Channel, ...] = CHANNELS) -> dict[str, Any]:
    return document(channels, Output("shop.servicebus.windows.net", envelope, release="1.0"))


def test_the_parser_finds_every_topic_in_every_envelope() -> None:
    for envelope in ENVELOPES:
        found = parsed(json.dumps(written(envelope)))
        assert [each for each in found["diagnostics"] if each["severity"] == _ERROR] == [], envelope
        assert sorted(found["channels"]) == sorted(channel.topic for channel in CHANNELS)
        assert found["messages"] == [True] * len(CHANNELS)
        assert found["operations"] == ["send"] * len(CHANNELS)


def test_the_parser_refuses_what_is_wrong() -> None:
    broken = written("dstream")
    del broken["info"]["title"]
    assert [each for each in parsed(json.dumps(broken))["diagnostics"] if each["severity"] == _ERROR]

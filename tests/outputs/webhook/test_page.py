"""The receiver of docs/outputs/webhook.md: it takes what the output sends, once and in order, and nobody else's requests."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from common.errors import EntityUnavailable
from common.names import TableName
from router.outputs.port import Stream
from router.outputs.webhook.output import WebhookOutput
from router.outputs.webhook.settings import WebhookSettings
from tests.outputs.contract.delivery import MERCY, deliver
from tests.outputs.contract.world import change
from tests.worlds.ports import free_port

PAGE = Path(__file__).parents[3] / "docs" / "outputs" / "webhook.md"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[int]:
    """Its port."""
    found = re.search(r"<!-- a receiver: begin -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    port = free_port()
    environment = {**os.environ, "SIGNING_SECRET": SECRET, "PORT": str(port)}
    process = subprocess.Popen(
        [sys.executable, "-c", found[1]], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + MERCY
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert process.poll() is None
                assert time.monotonic() < end
                time.sleep(0.05)
        yield port
    finally:
        process.kill()
        process.wait()


def test_the_receiver_of_the_page_takes_each_change_once(receiver: int, tmp_path: Path) -> None:
    output, stream = _output(receiver, SECRET)
    sent = [change(stream, number, "one") for number in range(30)]
    sender = output.sender(stream)
    deliver(sender, sent)
    deliver(sender, sent[10:20])
    output.close()
    with closing(sqlite3.connect(tmp_path / "changes.db")) as store:
        rows = store.execute("SELECT id, body FROM changes ORDER BY number").fetchall()
    assert rows == [(each.message_id, each.body.decode()) for each in sent]


def test_it_refuses_what_is_signed_with_another_secret(receiver: int) -> None:
    output, stream = _output(receiver, "whsec_" + "A" * 32)
    with pytest.raises(EntityUnavailable, match="401 Unauthorized"):
        deliver(output.sender(stream), [change(stream, 1, "one")])
    output.close()


def _output(port: int, secret: str) -> tuple[WebhookOutput, Stream]:
    url = f"http://127.0.0.1:{port}/"
    settings = WebhookSettings(type="webhook", url=url, signing_secret=SecretStr(secret), timeout=timedelta(seconds=30))
    return WebhookOutput(settings), Stream("server.shop.persons.events", TableName("dbo", "Persons"), url)

"""The contract of outputs over a real HTTP server."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ClassVar
from urllib.parse import urlsplit

from pydantic import SecretStr

from common.message import Message
from common.names import TableName
from router.outputs.port import Output, Stream
from router.outputs.webhook.output import WebhookOutput
from router.outputs.webhook.settings import WebhookSettings
from tests.outputs.contract.cases import OutputContract
from tests.outputs.contract.world import GENEROUS, ORIGIN, Arrival, Recipe, World, change
from tests.outputs.webhook.receiver import Receiver

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
TOKEN, QUERY, HEADER = "token-7f3a9c", "code=query-51b2d8", "header-90e1f4"

NOTHING_IS_CREATED = "a webhook creates nothing: its receiver is somebody else's program"


class WebhookWorld(World):
    impossible: ClassVar = {
        "test_a_missing_place_that_is_created_is_used_by_the_same_sender": NOTHING_IS_CREATED,
        "test_provision_creates_and_can_be_repeated": NOTHING_IS_CREATED,
        "test_findings_of_a_place_that_a_start_creates": NOTHING_IS_CREATED,
    }
    secrets = (SECRET, SECRET.removeprefix("whsec_"), TOKEN, "query-51b2d8", HEADER)
    batch = 1

    def __init__(self) -> None:
        super().__init__()
        self.receiver = Receiver(token=TOKEN, key=KEY)

    @property
    def port(self) -> int:
        return self.receiver.port

    def start(self) -> None:
        self.receiver.start()

    def stop(self) -> None:
        self.receiver.stop()

    def recipe(self, *, timeout: float = GENEROUS) -> Recipe:
        return self._recipe(timeout, TOKEN)

    def without_right(self, stream: Stream) -> Recipe:
        return self._recipe(GENEROUS, "token-7f3a9c-wrong")

    def _recipe(self, timeout: float, token: str) -> Recipe:
        arguments = {"port": self.relay.port, "timeout": timeout, "token": token, "batch": self.batch}
        return Recipe("tests.outputs.webhook.test_contract:made", arguments)

    def destination(self, table: TableName) -> str:
        return f"http://127.0.0.1:{self.relay.port}/in/{ORIGIN.database}/{table.schema}/{table.table}"

    def place(self) -> Stream:
        stream = self.nowhere()
        self.receiver.paths.add(urlsplit(stream.destination).path)
        return stream

    def arrived(self, stream: Stream) -> Sequence[Arrival]:
        with self.receiver.guard:
            return list(self.receiver.arrivals.get(urlsplit(stream.destination).path, ()))

    def refusable(self, stream: Stream, number: int, session: str | None) -> Message:
        return change(stream, number, session, text="never taken")

    @contextmanager
    def busy(self) -> Iterator[None]:
        self.receiver.busy = True
        try:
            yield
        finally:
            self.receiver.busy = False


class WorldOfBatches(WebhookWorld):
    batch = 20


def made(port: int, timeout: float, token: str, batch: int) -> Output:
    settings: dict[str, Any] = {
        "type": "webhook",
        "url": f"http://127.0.0.1:{port}/in/{{database}}/{{schema}}/{{table}}",
        "query": SecretStr(QUERY),
        "headers": {"X-Key": SecretStr(HEADER)},
        "bearer_token": SecretStr(token),
        "signing_secret": SecretStr(SECRET),
        "timeout": timedelta(seconds=timeout),
        "check_method": "HEAD",
        "batch": batch,
    }
    return WebhookOutput(WebhookSettings(**settings))


class _OfWebhooks(OutputContract):
    def test_a_session_has_one_request_in_flight(self) -> None:
        stream = self.world.place()
        sender = self.output().sender(stream)
        assert isinstance(self.world, WebhookWorld)
        before = self.world.receiver.overlapping
        sender.send(self.messages(stream, 120, sessions=5))
        assert self.world.receiver.overlapping == before


class TestWebhook(_OfWebhooks):
    world_type = WebhookWorld


class TestWebhookInBatches(_OfWebhooks):
    world_type = WorldOfBatches

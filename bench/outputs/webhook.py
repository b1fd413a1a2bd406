"""Prints messages a second of a webhook beside httpx's own loop, to an HTTP server in another process: `python -m bench.outputs.webhook`.

Both send the same requests one after the other; the output also makes their headers, and signs them.
"""

from __future__ import annotations

import argparse
import base64
import itertools
import multiprocessing
from collections.abc import Sequence
from datetime import timedelta
from multiprocessing.connection import Connection

import httpx
from pydantic import SecretStr

from bench.outputs.compared import compared
from common.message import Message
from common.names import TableName
from router.outputs.event_loop import LoopThread
from router.outputs.port import Stream
from router.outputs.webhook.output import WebhookOutput
from router.outputs.webhook.requests import of_one
from router.outputs.webhook.settings import WebhookSettings
from tests.outputs.contract.world import change
from tests.outputs.webhook.receiver import Receiver

_TOKEN, _KEY = "token", bytes(32)


def serve(port: Connection) -> None:
    receiver = Receiver(token=_TOKEN, key=_KEY)
    receiver.paths.add("/")
    receiver.start()
    port.send(receiver.port)
    port.recv()  # until the parent kills it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    here, there = multiprocessing.Pipe()
    server = multiprocessing.Process(target=serve, args=(there,), daemon=True)
    server.start()
    try:
        measure(f"http://127.0.0.1:{here.recv()}/", given.messages, given.rounds)
    finally:
        server.kill()


def measure(url: str, count: int, rounds: int) -> None:
    secret = SecretStr("whsec_" + base64.b64encode(_KEY).decode())
    settings = WebhookSettings(
        type="webhook", url=url, bearer_token=SecretStr(_TOKEN), signing_secret=secret, timeout=timedelta(seconds=30)
    )
    place = Stream("server.shop.persons.events", TableName("dbo", "Persons"), url)
    output, loop, numbers = WebhookOutput(settings), LoopThread("bare"), itertools.count()
    sender, client = output.sender(place), httpx.AsyncClient(headers={"authorization": f"Bearer {_TOKEN}"})

    async def post(messages: Sequence[Message], headers: Sequence[dict[str, str]]) -> None:
        for each, own in zip(messages, headers, strict=True):
            (await client.post(url, content=each.body, headers=own)).raise_for_status()

    def bare(messages: Sequence[Message]) -> None:
        headers = [dict(of_one(each).headers) for each in messages]
        loop.call(post(messages, headers), seconds=600, doing="sending")

    def fresh(way: str, turn: int) -> list[Message]:
        return [change(place, next(numbers), place.topic, size=100) for _ in range(count)]

    compared("webhook", {"httpx": bare, "dstream": sender.send}, fresh, rounds=rounds, bare="httpx")
    loop.call(client.aclose(), seconds=10, doing="closing")
    loop.close()
    output.close()


if __name__ == "__main__":
    main()

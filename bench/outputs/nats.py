"""Prints messages a second of NATS beside nats-py's own loops, to one nats-server on this machine: `python -m bench.outputs.nats`.

`pipelined` is `publish_async` with a page under way at once: it does not keep the order when a message in the middle is refused. `one by one`
awaits each message, which is what keeps the order without a chain.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import nats

from bench.outputs.compared import Way, compared
from common.message import Message
from common.names import TableName
from router.outputs.event_loop import LoopThread
from router.outputs.nats.output import NatsOutput
from router.outputs.nats.settings import NatsSettings
from router.outputs.port import Stream
from tests.outputs.contract.world import change
from tests.outputs.nats.server import NatsServer

_PAGE = 400
_PLACE = Stream("server.shop.persons.events", TableName("dbo", "Persons"), "server.shop.dbo.Persons")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = NatsServer(Path(folder), {})
        server.start()
        try:
            measure(f"nats://127.0.0.1:{server.port}", given.messages, given.rounds)
        finally:
            server.kill()


def measure(address: str, count: int, rounds: int) -> None:
    output, loop = NatsOutput(NatsSettings(type="nats", servers=(address,))), LoopThread("bare")
    output.provision([_PLACE], how="create")
    client = loop.call(nats.connect(address), seconds=10, doing="connecting")
    js, sender, numbers = client.jetstream(), output.sender(_PLACE), itertools.count()

    async def pipelined(page: Sequence[Message]) -> None:
        await asyncio.gather(
            *[
                await js.publish_async(_PLACE.destination, each.body, headers={"Nats-Msg-Id": str(each.message_id)})
                for each in page
            ]
        )

    async def one_by_one(page: Sequence[Message]) -> None:
        for each in page:
            await js.publish(_PLACE.destination, each.body, headers={"Nats-Msg-Id": str(each.message_id)})

    def in_pages(send: Callable[[Sequence[Message]], object]) -> Way:
        return lambda messages: [send(messages[at : at + _PAGE]) for at in range(0, len(messages), _PAGE)]

    def in_the_loop(work: Callable[[Sequence[Message]], Awaitable[None]]) -> Way:
        async def run(page: Sequence[Message]) -> None:
            await work(page)

        return in_pages(lambda page: loop.call(run(page), seconds=60, doing="sending"))

    def fresh(way: str, turn: int) -> list[Message]:
        return [change(_PLACE, next(numbers), _PLACE.topic, size=100) for _ in range(count)]

    for name, bare in (("pipelined", pipelined), ("one by one", one_by_one)):
        ways = {name: in_the_loop(bare), "dstream": in_pages(sender.send)}
        compared("nats", ways, fresh, rounds=rounds, bare=name)
    loop.call(client.close(), seconds=10, doing="closing")
    loop.close()
    output.close()


if __name__ == "__main__":
    main()

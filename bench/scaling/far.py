"""`python -m bench.scaling.far HOST SECONDS PORT...`: listens on HOST and passes octets on to these ports of loopback, so many seconds late each way.

Stands for a network between the executors and both servers: it costs time and hardly any processor. Its first line is JSON with the ports that it
listens on, in the order of those behind. Nothing is changed, no order is lost.
"""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from contextlib import suppress
from functools import partial

_CHUNK = 1 << 18


async def _late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float) -> None:
    """All that comes, and its end."""
    loop, waiting = asyncio.get_running_loop(), asyncio.Queue[tuple[float, bytes]]()

    async def take() -> None:
        data = b"."
        while data:
            try:
                data = await reader.read(_CHUNK)
            except OSError:
                data = b""
            waiting.put_nowait((loop.time() + seconds, data))

    taking = asyncio.create_task(take())
    with suppress(OSError):
        while True:
            due, data = await waiting.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                break
            writer.write(data)
            await writer.drain()
    taking.cancel()
    writer.close()


async def _serve(port: int, seconds: float, client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
    server, questions = await asyncio.open_connection("127.0.0.1", port)
    for writer in (answers, questions):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    await asyncio.gather(_late(client, questions, seconds), _late(server, answers, seconds))


async def main(host: str, seconds: float, ports: list[int]) -> None:
    listeners = [await asyncio.start_server(partial(_serve, port, seconds), host, 0) for port in ports]
    print(json.dumps([listener.sockets[0].getsockname()[1] for listener in listeners]), flush=True)
    await asyncio.gather(*(listener.serve_forever() for listener in listeners))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], float(sys.argv[2]), [int(port) for port in sys.argv[3:]]))

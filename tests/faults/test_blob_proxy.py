"""The proxy before Azurite, where it needs no Azurite: it falls mute, and forgets a client that has hung up."""

from __future__ import annotations

import socket
import threading

from tests.azurite.proxy import Answer, Proxy
from tests.worlds.world import wait_until


def test_a_mute_answer_is_none_and_the_connection_stays_open_until_the_client_leaves() -> None:
    before = threading.active_count()
    with Proxy(0, answer=Answer(None, mute=True)) as proxy:
        with socket.create_connection(("127.0.0.1", proxy.port)) as client:
            client.sendall(b"GET /devstoreaccount1?comp=list HTTP/1.1\r\nHost: here\r\n\r\n")
            client.settimeout(0.3)
            try:
                said = client.recv(1)
            except TimeoutError:
                said = None
            assert said is None
        wait_until(lambda: threading.active_count() <= before + 1, "its thread has ended", 20)

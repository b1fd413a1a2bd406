"""A storage account that takes the connection and says nothing, or stops halfway: asking for a lock ends all the same."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from common.errors import TransientError
from ingester.azure_blob.locks import AzureBlobLocks, connect

KEY = "a2V5"
HALF = b"HTTP/1.1 500 Oh\r\nContent-Type: application/xml\r\nContent-Length: 1000\r\n\r\n<?xml"


@pytest.fixture
def port(request: pytest.FixtureRequest) -> Iterator[int]:
    """Of a peer that says what the test is parametrized with to whoever connects, and nothing more."""
    peers: list[socket.socket] = []

    def serve(listener: socket.socket) -> None:
        while True:
            try:
                peer, _ = listener.accept()
                peers.append(peer)
                if request.param:
                    peer.recv(1 << 16)
                    peer.sendall(request.param)
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    for peer in peers:
        peer.close()


@pytest.mark.parametrize(
    ("port", "scheme"),
    [(b"", "http"), (b"", "https"), (HALF, "http")],
    ids=["no answer", "no handshake", "half an answer"],
    indirect=["port"],
)
def test_asking_ends_within_the_time_of_a_request(port: int, scheme: str) -> None:
    text = (
        f"DefaultEndpointsProtocol={scheme};AccountName=account;AccountKey={KEY};"
        f"BlobEndpoint={scheme}://127.0.0.1:{port}/account"
    )
    locks = AzureBlobLocks(connect(connection_string=text, account_url=None, seconds=2), "locks")
    try:
        with pytest.raises(TransientError, match="looking for container 'locks'"):
            locks.ensure()
    finally:
        locks.close()

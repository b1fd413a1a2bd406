"""Listening, TLS, and reflection."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from common.errors import PermanentError
from desk.console.access import checked
from desk.console.grpc.admission import address_of
from desk.console.grpc.handling import Sizes
from desk.console.grpc.server import Certificate
from tests.console.grpc.conftest import TOKEN, Server, Started
from tests.console.grpc.test_streams import eventually


def test_a_port_that_is_taken_is_an_error_with_what_to_do(started: Started) -> None:
    server = started()
    with pytest.raises(PermanentError, match="another process has the port"):
        started(port=server.serving.port)


def test_a_client_that_knows_nothing_finds_all_services(started: Started) -> None:
    server = started()
    found = ProtoReflectionDescriptorDatabase(server.client().channel)
    names = set(found.get_services())
    assert "grpc.reflection.v1alpha.ServerReflection" in names
    pool = DescriptorPool(found)
    service = pool.FindServiceByName("dstream.v1.DeadLetterService")
    assert {method.name for method in service.methods} >= {"Replay", "Purge"}
    assert pool.FindMessageTypeByName("dstream.v1.DeadLetterOrder").fields_by_name["filter"].message_type.fields
    assert {name for name in names if name.startswith("dstream.v1.")} == {
        f"dstream.v1.{name}" for name in server.pb.DESCRIPTOR.services_by_name
    }


def test_reflection_needs_the_token_too(started: Started) -> None:
    server = started(token=TOKEN)
    stub = reflection_pb2_grpc.ServerReflectionStub(server.client().channel)
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    with pytest.raises(grpc.RpcError) as caught:
        list(stub.ServerReflectionInfo(iter([asked]), timeout=20))
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    right = (("authorization", f"Bearer {TOKEN}"),)
    (answer,) = stub.ServerReflectionInfo(iter([asked]), timeout=20, metadata=right)
    assert answer.list_services_response.service


def test_a_method_that_is_not_there(started: Started) -> None:
    call: Any = started().client().channel.unary_unary("/dstream.v1.TableService/DropTable")
    with pytest.raises(grpc.RpcError) as caught:
        call(b"", timeout=20)
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


def certificate(folder: Path) -> Certificate:
    """Of `localhost`, and its own authority."""
    if shutil.which("openssl") is None:
        assert not os.environ.get("CI"), "openssl is missing"
        pytest.skip("openssl makes the certificate")
    folder.mkdir()
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "chain.pem")]
    subprocess.run([*command, *named, *files], check=True, capture_output=True)
    return Certificate((folder / "key.pem").read_bytes(), (folder / "chain.pem").read_bytes())


def test_with_tls_a_client_checks_the_certificate(started: Started, tmp_path: Path) -> None:
    made, stranger = certificate(tmp_path / "ours"), certificate(tmp_path / "stranger")
    server = started(certificate=made)
    target = f"localhost:{server.serving.port}"
    with grpc.secure_channel(target, grpc.ssl_channel_credentials(made.chain)) as channel:
        assert server.stubs.OverviewServiceStub(channel).GetOverview(server.pb.GetOverviewRequest(), timeout=20).server
    refused = (grpc.secure_channel(target, grpc.ssl_channel_credentials(stranger.chain)), grpc.insecure_channel(target))
    for channel in refused:
        with channel, pytest.raises(grpc.RpcError):
            server.stubs.OverviewServiceStub(channel).GetOverview(server.pb.GetOverviewRequest(), timeout=3)


def test_a_client_without_a_demanded_certificate_is_refused(started: Started, tmp_path: Path) -> None:
    made, theirs = certificate(tmp_path / "ours"), certificate(tmp_path / "theirs")
    server = started(certificate=replace(made, authorities=theirs.chain))
    target = f"localhost:{server.serving.port}"
    known = grpc.ssl_channel_credentials(made.chain, theirs.key, theirs.chain)
    with grpc.secure_channel(target, known) as channel:
        assert server.stubs.OverviewServiceStub(channel).GetOverview(server.pb.GetOverviewRequest(), timeout=20).server
    with grpc.secure_channel(target, grpc.ssl_channel_credentials(made.chain)) as channel, pytest.raises(grpc.RpcError):
        server.stubs.OverviewServiceStub(channel).GetOverview(server.pb.GetOverviewRequest(), timeout=3)


def test_a_key_of_another_certificate_is_an_error(started: Started, tmp_path: Path) -> None:
    made, other = certificate(tmp_path / "ours"), certificate(tmp_path / "other")
    with pytest.raises(PermanentError, match="the key must belong to the certificate"):
        started(certificate=Certificate(other.key, made.chain))


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:10.0.0.7:51234", "10.0.0.7"),
        ("ipv6:%5B::1%5D:51234", "::1"),
        ("ipv6:[fe80::1]:1", "fe80::1"),
        ("unix:/run/x", "local"),
        ("", "local"),
    ],
)
def test_the_address_of_a_peer(peer: str, address: str) -> None:
    assert address_of(peer) == address


def mute(server: Server, path: str, calls: int, *metadata: tuple[str, str]) -> list[Any]:
    """Calls on one connection that never send a message."""
    channel = server.channels.enter_context(
        grpc.insecure_channel(server.target, options=[("grpc.use_local_subchannel_pool", 1)])
    )
    end = threading.Event()
    server.channels.callback(end.set)

    def nothing() -> Iterator[bytes]:
        end.wait(30)
        yield from ()

    method = channel.stream_unary(path)
    return [method.future(nothing(), metadata=metadata) for _ in range(calls)]


OVERVIEW = "/dstream.v1.OverviewService/GetOverview"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"


@pytest.mark.parametrize("path", [OVERVIEW, REFLECTION, "/dstream.v1.EventService/Watch"])
def test_calls_that_send_no_message_are_judged_at_once(started: Started, path: str) -> None:
    server = started(token="a-token-of-the-tests", sizes=Sizes(calls=8))
    calls = mute(server, path, 10)
    errors = [each.exception(timeout=30) for each in calls]
    # What is over the limit before the client has heard of it is refused by HTTP/2 itself (REFUSED_STREAM, 7), as one that may be sent again.
    codes = {error.code() for error in errors if "RST_STREAM with error code 7" not in error.details()}
    assert codes <= {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert grpc.StatusCode.UNAUTHENTICATED in codes
    right = (("authorization", "Bearer a-token-of-the-tests"),)
    assert (
        server.client().OverviewService.GetOverview(server.pb.GetOverviewRequest(), metadata=right, timeout=30).server
    )


def test_a_call_has_some_seconds_for_its_message(started: Started) -> None:
    server = started(sizes=Sizes(message_seconds=0.3))
    (call,) = mute(server, OVERVIEW, 1)
    error = call.exception(timeout=30)
    assert (error.code(), "within 0.3 s" in error.details()) == (grpc.StatusCode.DEADLINE_EXCEEDED, True)
    assert server.client().OverviewService.GetOverview(server.pb.GetOverviewRequest(), timeout=30).server


@pytest.mark.parametrize("path", [OVERVIEW, REFLECTION])
def test_a_client_with_too_many_calls_keeps_out_no_other(started: Started, path: str) -> None:
    access = checked("127.0.0.1", token_file=False, behind_proxy="x-user")
    server = started(access=access, sizes=Sizes(calls_of_a_client=2, message_seconds=20))
    calls = mute(server, path, 3, ("x-user", "hog"))
    eventually(lambda: any(each.done() for each in calls))
    (error,) = [each.exception() for each in calls if each.done()]
    assert (error.code(), error.details()[:12]) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "2 calls of t")
    asked = {"metadata": [("x-user", "ada")], "timeout": 30}
    assert server.client().OverviewService.GetOverview(server.pb.GetOverviewRequest(), **asked).server
    for each in calls:
        each.cancel()
    asked["metadata"] = [("x-user", "hog")]
    eventually(lambda: _answered(server, asked))


def _answered(server: Server, asked: dict[str, Any]) -> bool:
    try:
        return bool(server.client().OverviewService.GetOverview(server.pb.GetOverviewRequest(), **asked).server)
    except grpc.RpcError:
        return False


def test_connections_are_bounded_and_one_without_a_call_is_closed(started: Started) -> None:
    server = started(sizes=Sizes(connections=2, idle_milliseconds=1000))
    hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
    with ExitStack() as stack:
        links = [stack.enter_context(socket.create_connection(("127.0.0.1", server.serving.port), 5)) for _ in range(3)]
        for link in links:
            link.settimeout(10)
            with suppress(ConnectionError):
                link.sendall(hello)
        answers = [_first(link) for link in links]
        assert [bool(each) for each in answers] == [True, True, False]
        eventually(lambda: not _first(links[0]) and not _first(links[1]))
    assert server.client().OverviewService.GetOverview(server.pb.GetOverviewRequest(), timeout=30).server


def _first(link: socket.socket) -> bytes:
    try:
        return link.recv(4096)
    except ConnectionError:
        return b""

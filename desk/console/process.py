"""The process of `dstream console`: listens, looks at stores, and serves until it is stopped. It ends with status 0 when it was asked to."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from desk.console import descriptors
from desk.console.audited import audited
from desk.console.http.app import app_of
from desk.console.http.served import Served
from desk.console.http.serving import listening, serve
from desk.console.limits import Limits, counting
from desk.console.options import Options
from desk.console.tokens import TokenFile
from desk.console.wiring import audit_of, desk_of
from desk.status import Stages

log = structlog.get_logger("console")


def run(stages: Stages, options: Options, *, stop: threading.Event) -> int:
    """Until `stop` is set. Raises ConfigurationError, and PermanentError where it cannot listen or keep an audit log."""
    descriptors.raised()
    tokens = None
    if options.token_file is not None:
        tokens = TokenFile(options.token_file)
        tokens.load()
    audit = audit_of(options)
    listener = listening(options.access.host, options.port)
    limits = Limits()
    with listener, desk_of(stages, options, audit, stop) as desk:
        served = Served(
            desk=audited(desk, allow_changes=options.allow_changes, limits=limits),
            access=options.access,
            allow_changes=options.allow_changes,
            limits=limits,
            tokens=tokens,
        )
        with _grpc(options, served):
            _announce(options, listener.getsockname()[1], knows_accounts=served.peers.works)
            serve(
                app_of(served),
                listener,
                stop,
                stopping=served.events.stop,
                tls=options.tls,
                counted_as=counting(options.access),
            )
    log.info("console stopped")
    return 0


@contextmanager
def _grpc(options: Options, served: Served) -> Iterator[None]:
    """gRPC beside HTTP, where it is asked for: the same desk, limits and tokens. Raises PermanentError."""
    if options.grpc_port is None:
        yield
        return
    from desk.console.grpc.admission import Admission
    from desk.console.grpc.server import Certificate, serve

    tokens = served.tokens
    admission = Admission(
        served.access,
        served.limits,
        served.local_user,
        (lambda token: None) if tokens is None else tokens.person,
        lambda address, port: served.user_at((address, port), options.grpc_port or None),
    )
    certificate = None
    if options.tls is not None:
        chain = options.tls.certificate.read_bytes()
        certificate = Certificate(chain if options.tls.key is None else options.tls.key.read_bytes(), chain)
    serving = serve(
        served.desk,
        admission,
        f"{_shown(options.access.host)}:{options.grpc_port}",
        calls=served.calls,
        certificate=certificate,
    )
    log.info("gRPC served", address=f"{_shown(options.access.host)}:{serving.port}")
    try:
        yield
    finally:
        serving.stop()


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _announce(options: Options, port: int, *, knows_accounts: bool) -> None:
    host = _shown(options.access.host)
    scheme = "https" if options.tls else "http"
    log.info(
        "console started",
        address=f"{scheme}://{host}:{port}",
        access=options.access.mode,
        changes="allowed" if options.allow_changes else "refused; --allow-changes allows them",
    )
    if options.access.mode == "local" and not knows_accounts:
        log.warning(
            "anybody on this machine is let in",
            why="this system does not say whose account a connection is",
            hint="give --token-file FILE where other people have an account, or other containers share the network",
        )
    if options.access.mode == "token" and options.tls is None and host not in ("127.0.0.1", "localhost", "[::1]"):
        log.warning(
            "tokens pass in the clear",
            address=f"{scheme}://{host}:{port}",
            hint="give --tls-cert and --tls-key, or have a proxy with TLS before it",
        )
    if options.access.mode == "proxy" and not options.access.trusted:
        log.warning(
            "anybody who reaches the console may name any person",
            header=options.access.header,
            hint="let only the proxy reach it, and name its network with --trusted-proxy",
        )

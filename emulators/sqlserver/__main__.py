"""`python -m emulators.sqlserver`: the SQL Server emulator as a program of its own, until SIGTERM or SIGINT.

It reads its arguments and wires engine and server; it holds no behaviour of either.
"""

from __future__ import annotations

import argparse
import gc
import json
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from emulators.listening import port, refusal
from emulators.sqlserver.faults import catalogue as faults
from emulators.sqlserver.injection import Fault
from emulators.sqlserver.server import SqlServerEmulator
from emulators.sqlserver.tls import TlsSettings
from emulators.standard_input import watch_standard_input
from emulators.stopping import stopped_by_signals, wait_for

_STOP_STEP = 0.1
_NEW_OBJECTS = 10_000
"""Python looks for garbage in cycles after so many: seldom at everything that it holds, which with a thousand tables stops every batch for 0.2 s."""


def parse_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m emulators.sqlserver",
        description="A SQL Server emulator with Change Data Capture, for development and tests.",
    )
    _add_addresses(parser)
    _add_logins(parser)
    _add_databases(parser)
    _add_faults(parser)
    parser.add_argument(
        "--stop-with-stdin",
        action="store_true",
        help="stop when standard input ends, as it does when the process that started this ends",
    )
    parser.add_argument("--json", action="store_true", help="print the address as one line of JSON")
    arguments = parser.parse_args(argv)
    if arguments.tls_ca_out is not None and not arguments.tls:
        parser.error("--tls-ca-out needs --tls")
    return arguments


def _add_addresses(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=port, default=1433, help="0 takes a free port (default: %(default)s)")
    parser.add_argument(
        "--tls",
        action="store_true",
        help="offer encryption, with a certificate for localhost that the openssl program makes",
    )
    parser.add_argument(
        "--tls-ca-out", type=Path, metavar="FILE", help="write the certificate of the authority that clients must trust"
    )


def _add_logins(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--user", default="sa", help="the login (default: %(default)s)")
    parser.add_argument("--password", required=True, help="the login's password")
    parser.add_argument(
        "--token",
        nargs=2,
        action="append",
        default=[],
        metavar=("TOKEN", "IDENTITY"),
        help="an access token to take, and the identity that it is of; may be given again (default: none are taken)",
    )


def _add_databases(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--database", action="append", metavar="NAME", help="a database to have; may be given again (default: demo)"
    )
    parser.add_argument(
        "--capture-interval", type=float, default=5.0, metavar="SECONDS", help="polling interval of the capture job"
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        default=None,
        help="where databases, logins and settings are kept and found again; kill -9 loses nothing committed (default: nowhere)",
    )


def _add_faults(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--fault",
        action="append",
        type=fault,
        default=[],
        metavar="NAME[:ARGUMENTS]",
        help=f"may be given again: {faults.usage()}",
    )
    parser.add_argument(
        "--faults-wait", action="store_true", help="the faults begin when a line comes on standard input, not at once"
    )


def announcement(server: SqlServerEmulator, arguments: argparse.Namespace, databases: Sequence[str]) -> str:
    """The line that tells where the server listens."""
    if arguments.json:
        return json.dumps(
            {"host": server.host, "port": server.port, "user": arguments.user, "databases": list(databases)}
        )
    return f"SQL Server emulator listening on {server.host}:{server.port}, databases: {', '.join(databases)}"


def fault(text: str) -> Fault:
    """A fault by its name, in argparse's manner of saying no."""
    try:
        return faults.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def serve(server: SqlServerEmulator, arguments: argparse.Namespace, stop: threading.Event) -> None:
    """Until `stop`, with the faults asked for in force."""
    begin = threading.Event()
    if arguments.faults_wait or arguments.stop_with_stdin:
        watch_standard_input(on_line=begin.set, on_end=stop.set if arguments.stop_with_stdin else None)
    if arguments.faults_wait:
        while not (begin.is_set() or stop.is_set()):
            begin.wait(_STOP_STEP)
    with ExitStack() as injected:
        for each in arguments.fault:
            injected.enter_context(server.inject(each))
        wait_for(stop)


def encryption(arguments: argparse.Namespace) -> TlsSettings | None:
    """The certificate asked for, its authority written where it is wanted."""
    if not arguments.tls:
        return None
    try:
        tls = TlsSettings.self_made()
        if arguments.tls_ca_out is not None:
            arguments.tls_ca_out.write_text(tls.authority)
    except (RuntimeError, OSError) as error:
        raise SystemExit(f"{error}") from error
    return tls


def main(argv: Sequence[str] | None = None) -> int:
    arguments, stop = parse_arguments(argv), threading.Event()
    with stopped_by_signals(stop):
        _run(arguments, stop)
    return 0


def _run(arguments: argparse.Namespace, stop: threading.Event) -> None:
    # Only now: --help must not wait for the parser and the engine to load.
    from emulators.sqlserver.build import build_engine
    from emulators.sqlserver.cdc.options import CdcOptions
    from emulators.sqlserver.engine.store.data_directory import DataDirectoryError

    databases = arguments.database or ["demo"]
    tls = encryption(arguments)
    try:
        engine = build_engine(
            users={arguments.user: arguments.password},
            databases=databases,
            capture_interval=arguments.capture_interval,
            data_dir=arguments.data_dir,
            capture=CdcOptions(first_entry=True),
            tokens=dict(arguments.token),
        )
    except DataDirectoryError as error:
        raise SystemExit(f"{error}") from error
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS)
    with ExitStack() as opened:
        opened.callback(engine.close)
        server = SqlServerEmulator(
            engine, host=arguments.host, port=arguments.port, tls=tls, federated=bool(arguments.token)
        )
        try:
            opened.enter_context(server)
        except OSError as error:
            where = f"{server.host} port {server.port}"
            raise SystemExit(refusal("SQL Server", error, "--port chooses another", address=where)) from error
        print(announcement(server, arguments, databases), flush=True)
        serve(server, arguments, stop)


if __name__ == "__main__":
    raise SystemExit(main())

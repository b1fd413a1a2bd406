"""`python -m emulators.eventhubs`: the emulator as a program, until SIGTERM or SIGINT.

Hubs come from the command line, and from the data directory of an earlier run.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from emulators.certificates import TlsSettings
from emulators.listening import port, refusal
from emulators.servicebus.faults import catalogue
from emulators.servicebus.faults.injection import Fault
from emulators.servicebus.file_limit import raise_file_limit
from emulators.standard_input import watch_standard_input
from emulators.stopping import stopped_by_signals, wait_for

from .server import EventHubsEmulator

AMQP_PORT = 5672
TLS_PORT = 5671
PARTITIONS = 4
HUB_FORM = "NAME[:PARTITIONS[:GROUP,...]]"

_ABOUT = """\
Azure Event Hubs, emulated: AMQP 1.0, for development and tests.

It runs until SIGTERM or SIGINT. Connect with the connection string that it prints. Hubs asked for are made
at the start, each with the consumer group $Default.
"""


class Wanted(NamedTuple):
    """A hub of the command line."""

    name: str
    partitions: int
    groups: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, start, wait; the exit status.

    1: it could not start, or stopped because the data could not be kept. 2: the arguments are wrong.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.tls_ca_out is not None and not options.tls:
        parser.error("--tls-ca-out needs --tls")
    raise_file_limit()
    stop = threading.Event()
    with stopped_by_signals(stop):
        if options.stop_with_stdin:
            watch_standard_input(on_end=stop.set)
        try:
            return _serve(options, stop)
        except (OSError, RuntimeError, ValueError) as error:
            print(refusal("Event Hubs", error, "--port and --tls-port choose others"), file=sys.stderr)
            return 1


def _serve(options: argparse.Namespace, stop: threading.Event) -> int:
    """Until `stop`: 0; 1 when the data could not be kept. Raises OSError, RuntimeError or ValueError when it cannot start."""
    failures: list[OSError] = []

    def on_failure(error: OSError) -> None:
        failures.append(error)
        stop.set()

    with EventHubsEmulator(
        host=options.host,
        port=options.port,
        tls=_encryption(options),
        tls_port=options.tls_port,
        data=options.data,
        on_failure=on_failure,
    ) as emulator:
        known = {name.lower() for name in emulator.hub_names()}
        for hub in options.hub:
            if hub.name.lower() not in known:
                emulator.create_hub(hub.name, hub.partitions, hub.groups)
        with ExitStack() as injected:
            for fault in options.fault:
                injected.enter_context(emulator.inject(fault))
            print(_announcement(emulator, options), flush=True)
            wait_for(stop)
    return 1 if failures else 0


def hub(text: str) -> Wanted:
    """`NAME[:PARTITIONS[:GROUP,...]]`. Raises argparse.ArgumentTypeError."""
    name, _, rest = text.partition(":")
    partitions, _, groups = rest.partition(":")
    if not name or (partitions and not partitions.isdecimal()):
        raise argparse.ArgumentTypeError(f"a hub is written {HUB_FORM}")
    return Wanted(name, int(partitions or PARTITIONS), tuple(filter(None, groups.split(","))))


def _fault(text: str) -> Fault:
    """A fault by its name, in argparse's manner of saying no."""
    try:
        return catalogue.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m emulators.eventhubs", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    add("--port", type=port, default=AMQP_PORT, help="AMQP port, 0 for any (default: %(default)s)")
    add(
        "--tls",
        action="store_true",
        help="TLS as well, with a certificate for localhost that the openssl program makes",
    )
    add("--tls-port", type=port, default=TLS_PORT, help="AMQP over TLS (default: %(default)s)")
    ca = "write the certificate of the authority that clients must trust"
    add("--tls-ca-out", type=Path, metavar="FILE", help=ca)
    hubs = f"have an event hub with so many partitions (default: {PARTITIONS}) and consumer groups; may be given again"
    add("--hub", type=hub, action="append", default=[], metavar=HUB_FORM, help=hubs)
    add("--data", type=Path, metavar="DIR", help="directory that keeps the namespace (default: memory only)")
    faults = f"something that goes wrong, from the start; may be given again: {catalogue.usage()}"
    add("--fault", action="append", type=_fault, default=[], metavar="NAME[:ARGUMENTS]", help=faults)
    stdin = "stop when standard input ends, as it does when the process that started this ends"
    add("--stop-with-stdin", action="store_true", help=stdin)
    add("--json", action="store_true", help="announce the addresses as one line of JSON")
    return parser


def _encryption(options: argparse.Namespace) -> TlsSettings | None:
    """The certificate asked for, its authority written where it is wanted. Raises OSError, RuntimeError."""
    if not options.tls:
        return None
    tls = TlsSettings.self_made()
    if options.tls_ca_out is not None:
        options.tls_ca_out.write_text(tls.authority)
    return tls


def _announcement(emulator: EventHubsEmulator, options: argparse.Namespace) -> str:
    facts: dict[str, str | int] = {"port": emulator.port, "connection_string": emulator.connection_string}
    if options.tls:
        facts["tls_port"] = emulator.tls_port
    return json.dumps(facts) if options.json else "\n".join(str(fact) for fact in facts.values())


if __name__ == "__main__":
    sys.exit(main())

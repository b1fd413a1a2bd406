"""`python -m emulators.servicebus`: the emulator as a program, until SIGTERM or SIGINT.

Ports default to those of Microsoft's emulator (5672 and 5300); with `--tls` AMQP is also at the service's own (5671) and the
management API one beyond. Entities come from the command line, from a configuration file or, later, from the management API;
they and their messages are kept when there is a directory for them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from emulators.certificates import TlsSettings
from emulators.listening import port, refusal
from emulators.standard_input import watch_standard_input
from emulators.stopping import stopped_by_signals, wait_for

from .description import InvalidEntity
from .faults import catalogue
from .faults.injection import Fault
from .file_limit import raise_file_limit
from .provisioning import entity_options
from .provisioning.configuration import read_configuration
from .provisioning.json_reader import InvalidDocument
from .provisioning.provision import Asked, provide_all
from .server import ServiceBusEmulator

AMQP_PORT = 5672
HTTP_PORT = 5300
TLS_PORT = 5671
HTTPS_PORT = 5301

_ABOUT = """\
Azure Service Bus, emulated: AMQP 1.0 and the management API, for development and tests.

It runs until SIGTERM or SIGINT. Connect with the connection string that it prints. Entities asked for
are made at the start; more can be made through the management API. GET /health says when it is ready,
GET / on the same port shows what is in the namespace.
"""
_OTHER_PORTS = "--port, --http-port, --tls-port and --https-port choose others"


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, start, wait; the exit status.

    1: it could not start, or stopped because the data could not be kept. 2: the arguments or the configuration file are wrong.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.tls_ca_out is not None and not options.tls:
        parser.error("--tls-ca-out needs --tls")
    try:
        asked = _asked(options)
    except (OSError, UnicodeDecodeError, InvalidDocument) as error:
        print(_complaint(options.config, error), file=sys.stderr)
        return 2
    raise_file_limit()
    stop = threading.Event()
    with stopped_by_signals(stop):
        if options.stop_with_stdin:
            watch_standard_input(on_end=stop.set)
        try:
            return _serve(options, asked, stop)
        except (OSError, RuntimeError, InvalidEntity) as error:
            print(refusal("Service Bus", error, _OTHER_PORTS), file=sys.stderr)
            return 1


def _serve(options: argparse.Namespace, asked: Sequence[Asked], stop: threading.Event) -> int:
    """Until `stop`: 0; 1 when the data could not be kept. Raises OSError, RuntimeError or InvalidEntity when it cannot start."""
    failures: list[OSError] = []

    def on_failure(error: OSError) -> None:
        failures.append(error)
        stop.set()

    with ServiceBusEmulator(
        host=options.host,
        port=options.port,
        http_port=options.http_port,
        tls=_encryption(options),
        tls_port=options.tls_port,
        https_port=options.https_port,
        credits_per_second=options.credits_per_second,
        data=options.data,
        on_failure=on_failure,
    ) as emulator:
        provide_all(emulator.admin, asked)
        with ExitStack() as injected:
            for fault in options.fault:
                injected.enter_context(emulator.inject(fault))
            print(_announcement(emulator, options), flush=True)
            wait_for(stop)
    return 1 if failures else 0


def _fault(text: str) -> Fault:
    """A fault by its name, in argparse's manner of saying no."""
    try:
        return catalogue.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _credits(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("a namespace has at least one credit per second")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m emulators.servicebus", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    _add_troubles(parser)
    _add_addresses(parser)
    _add_contents(parser)
    parser.add_argument(
        "--stop-with-stdin",
        action="store_true",
        help="stop when standard input ends, as it does when the process that started this ends",
    )
    parser.add_argument("--json", action="store_true", help="announce the addresses as one line of JSON")
    return parser


def _add_troubles(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--credits-per-second",
        type=_credits,
        metavar="N",
        help="throttle the namespace; a Standard one has 1000 (default: no limit)",
    )
    parser.add_argument(
        "--fault",
        action="append",
        type=_fault,
        default=[],
        metavar="NAME[:ARGUMENTS]",
        help=f"something that goes wrong, from the start; may be given again: {catalogue.usage()}",
    )


def _add_addresses(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=port, default=AMQP_PORT, help="AMQP port, 0 for any (default: %(default)s)")
    parser.add_argument("--http-port", type=port, default=HTTP_PORT, help="management port (default: %(default)s)")
    parser.add_argument(
        "--tls",
        action="store_true",
        help="TLS as well, with a certificate for localhost that the openssl program makes",
    )
    parser.add_argument("--tls-port", type=port, default=TLS_PORT, help="AMQP over TLS (default: %(default)s)")
    parser.add_argument(
        "--https-port", type=port, default=HTTPS_PORT, help="management over TLS (default: %(default)s)"
    )
    parser.add_argument(
        "--tls-ca-out", type=Path, metavar="FILE", help="write the certificate of the authority that clients must trust"
    )


def _add_contents(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="entities, as in the Config.json of Microsoft's emulator"
    )
    parser.add_argument(
        "--queue",
        type=entity_options.queue,
        action="append",
        default=[],
        metavar=entity_options.QUEUE_FORM,
        help="have a queue, with sessions or without; may be given again",
    )
    parser.add_argument(
        "--topic",
        type=entity_options.topic,
        action="append",
        default=[],
        metavar=entity_options.TOPIC_FORM,
        help="have a topic with subscriptions; may be given again",
    )
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="directory that keeps the namespace (default: memory only)"
    )


def _encryption(options: argparse.Namespace) -> TlsSettings | None:
    """The certificate asked for, its authority written where it is wanted. Raises OSError, RuntimeError."""
    if not options.tls:
        return None
    tls = TlsSettings.self_made()
    if options.tls_ca_out is not None:
        options.tls_ca_out.write_text(tls.authority)
    return tls


def _asked(options: argparse.Namespace) -> list[Asked]:
    """Entities of the configuration file and of the command line. Raises OSError, UnicodeDecodeError, InvalidDocument."""
    declared = [] if options.config is None else read_configuration(options.config.read_text("utf-8-sig"))
    return [*declared, *itertools.chain(*options.queue, *options.topic)]


def _complaint(config: Path, error: OSError | UnicodeDecodeError | InvalidDocument) -> str:
    if isinstance(error, OSError):  # its own words have the name once more
        return f"reading the configuration: {config}: {error.strerror or error}"
    if not isinstance(error, InvalidDocument):
        return f"reading the configuration: {config}: {error}"
    return "\n".join(("reading the configuration:", *(f"{config}: {problem}" for problem in error.problems)))


def _announcement(emulator: ServiceBusEmulator, options: argparse.Namespace) -> str:
    facts: dict[str, str | int] = {
        "port": emulator.port,
        "http_port": emulator.http_port,
        "connection_string": emulator.connection_string,
        "amqp_address": f"127.0.0.1:{emulator.port}",
        "management_endpoint": f"http://127.0.0.1:{emulator.http_port}",
    }
    lines = [emulator.connection_string, f"management API at http://127.0.0.1:{emulator.http_port}"]
    if options.tls:
        secure = emulator.secure_connection_string
        facts |= {"tls_port": emulator.tls_port, "https_port": emulator.https_port, "secure_connection_string": secure}
        facts |= {
            "secure_amqp_address": f"localhost:{emulator.tls_port}",
            "secure_management_endpoint": f"https://localhost:{emulator.https_port}",
            "administration_connection_string": secure,
        }
        lines += [f"over TLS: {secure}", f"custom endpoint address sb://localhost:{emulator.tls_port}"]
    return json.dumps(facts) if options.json else "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())

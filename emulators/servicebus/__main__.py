"""`python -m emulators.servicebus`: the emulator as a program, until SIGTERM or SIGINT.

Ports default to those of Microsoft's emulator (5672 and 5300). Entities come from the command line or, later, from the
management API; they and their messages are kept when there is a directory for them.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from .description import InvalidEntity, QueueDescription, SubscriptionDescription, TopicDescription
from .provision import provide
from .server import ServiceBusEmulator

AMQP_PORT = 5672
HTTP_PORT = 5300


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, start, wait; the exit status: 1 when it could not start, or stopped because the data could not be kept."""
    options = _parser().parse_args(arguments)
    stop = threading.Event()
    failures: list[OSError] = []

    def on_signal(number: int, frame: FrameType | None) -> None:
        stop.set()

    def on_failure(error: OSError) -> None:
        failures.append(error)
        stop.set()

    previous = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with ServiceBusEmulator(
            host=options.host,
            port=options.port,
            http_port=options.http_port,
            data=options.data,
            on_failure=on_failure,
        ) as emulator:
            _create_entities(emulator, options.queue, options.topic)
            print(_announcement(emulator, options.json), flush=True)
            stop.wait()
    except (OSError, InvalidEntity) as error:
        print(f"starting the Service Bus emulator: {error}", file=sys.stderr)
        return 1
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
    return 1 if failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m emulators.servicebus", description="Azure Service Bus, emulated.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=AMQP_PORT, help="AMQP port, 0 for any (default: %(default)s)")
    parser.add_argument("--http-port", type=int, default=HTTP_PORT, help="management port (default: %(default)s)")
    parser.add_argument("--queue", action="append", default=[], metavar="NAME[:session]", help="create a queue")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME=SUB[:session],...", help="create a topic")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="directory that keeps the namespace (default: memory only)"
    )
    parser.add_argument("--json", action="store_true", help="announce the addresses as one line of JSON")
    return parser


def _create_entities(emulator: ServiceBusEmulator, queues: Sequence[str], topics: Sequence[str]) -> None:
    for text in queues:
        name, sessions = _named(text)
        provide(emulator.admin, name, QueueDescription(requires_session=sessions))
    for text in topics:
        topic, _, subscriptions = text.partition("=")
        provide(emulator.admin, topic, TopicDescription())
        for item in filter(None, subscriptions.split(",")):
            name, sessions = _named(item)
            provide(emulator.admin, f"{topic}/Subscriptions/{name}", SubscriptionDescription(requires_session=sessions))


def _named(text: str) -> tuple[str, bool]:
    name, separator, option = text.partition(":")
    if separator and option != "session":
        raise InvalidEntity(f"'{text}': the only option of an entity is 'session'")
    return name, bool(separator)


def _announcement(emulator: ServiceBusEmulator, as_json: bool) -> str:
    facts = {
        "port": emulator.port,
        "http_port": emulator.http_port,
        "connection_string": emulator.connection_string,
    }
    if as_json:
        return json.dumps(facts)
    return f"{emulator.connection_string}\nmanagement API at http://127.0.0.1:{emulator.http_port}"


if __name__ == "__main__":
    sys.exit(main())

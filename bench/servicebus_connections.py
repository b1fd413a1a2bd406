"""Connections held by the Service Bus emulator: how fast they come, what each costs, and whether the others notice.

    .venv/bin/python bench/servicebus_connections.py [--connections 2000] [--receivers]

The emulator runs as a process of its own. Connections are opened as a client opens them (SASL, open, begin, and with `--receivers` a
link to a queue with credit), then held. Prints the seconds it took, the memory per connection, the processor time that holding them
takes while nothing happens, and the latency of Azure's own client sending one message at a time, before and meanwhile.
The last line is JSON with the same figures.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from azure.servicebus import ServiceBusClient, ServiceBusMessage

from emulators.servicebus.amqp import performatives as p
from emulators.servicebus.amqp.frames import AMQP_HEADER, SASL_FRAME, SASL_HEADER, frame
from emulators.servicebus.amqp.values import Described, Symbol, UByte, UInt, ULong, UShort
from emulators.servicebus.file_limit import raise_file_limit
from emulators.servicebus.server import DEVELOPMENT_KEY, ROOT_POLICY

IDLE_SECONDS = 10
SENDS = 200
_KILOBYTE = 1024


def greeting(receiver: bool) -> bytes:
    """Everything up to the link in one breath: the emulator answers in order."""
    response = f"\0{ROOT_POLICY}\0{DEVELOPMENT_KEY}".encode()
    said = [
        SASL_HEADER,
        frame(0, p.perform(p.SASL_INIT, Symbol("PLAIN"), response), SASL_FRAME),
        AMQP_HEADER,
        frame(0, p.perform(p.OPEN, "bench", None, UInt(65_536), UShort(10))),
        frame(1, p.perform(p.BEGIN, None, UInt(0), UInt(1000), UInt(1000))),
    ]
    if receiver:
        ends = [Described(ULong(code), ["held"]) for code in (p.SOURCE, p.TARGET)]
        said.append(frame(1, p.perform(p.ATTACH, "link", UInt(0), True, UByte(0), UByte(0), *ends)))
        flow = [UInt(0), UInt(1000), UInt(0), UInt(1000), UInt(0), UInt(0), UInt(10)]
        said.append(frame(1, p.perform(p.FLOW, *flow)))
    return b"".join(said)


def memory(process: int) -> int:
    """Bytes resident."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * _KILOBYTE


def processor(process: int) -> float:
    """Seconds spent so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def latency(connection_string: str) -> float:
    """Milliseconds, the median of `SENDS`."""
    taken = []
    with (
        ServiceBusClient.from_connection_string(connection_string) as client,
        client.get_queue_sender("sent") as sender,
    ):
        for _ in range(SENDS):
            started = time.perf_counter()
            sender.send_messages(ServiceBusMessage("x"))
            taken.append(time.perf_counter() - started)
    return median(taken) * 1000


def main() -> None:
    parser = argparse.ArgumentParser(description="Connections held by the Service Bus emulator.")
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--receivers", action="store_true", help="each with a receiver on a queue")
    options = parser.parse_args()
    raise_file_limit()
    program = [sys.executable, "-m", "emulators.servicebus", "--port", "0", "--http-port", "0", "--json"]
    emulator = subprocess.Popen([*program, "--queue", "held", "--queue", "sent"], stdout=subprocess.PIPE, text=True)
    assert emulator.stdout is not None
    held: list[socket.socket] = []
    try:
        facts = json.loads(emulator.stdout.readline())
        figures: dict[str, float] = {"connections": options.connections}
        figures["latency_before_ms"] = latency(facts["connection_string"])
        before = memory(emulator.pid)
        started = time.perf_counter()
        hello = greeting(options.receivers)
        for _ in range(options.connections):
            client = socket.create_connection(("127.0.0.1", facts["port"]), timeout=60)
            client.sendall(hello)
            held.append(client)
        for client in held:
            heard = b""
            while len(heard) < 120:  # past the headers and the SASL outcome, into open and begin
                heard += client.recv(4096)
        figures["opened_in_s"] = time.perf_counter() - started
        figures["kilobytes_each"] = (memory(emulator.pid) - before) / options.connections / _KILOBYTE
        spent = processor(emulator.pid)
        time.sleep(IDLE_SECONDS)
        figures["idle_processor_percent"] = (processor(emulator.pid) - spent) / IDLE_SECONDS * 100
        figures["latency_meanwhile_ms"] = latency(facts["connection_string"])
        started = time.perf_counter()
        emulator.terminate()
        emulator.wait(60)
        figures["stopped_in_s"] = time.perf_counter() - started
    finally:
        emulator.kill()
        emulator.wait()
        emulator.stdout.close()
        for client in held:
            client.close()
    for name, value in figures.items():
        print(f"{name:24} {value:10.2f}")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

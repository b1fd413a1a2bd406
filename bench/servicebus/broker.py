"""The Service Bus emulator as a process of its own, and what the system says it uses (Linux: /proc)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

_KILOBYTE: Final = 1024
_TICK: Final = 1 / os.sysconf("SC_CLK_TCK")


class Broker:
    """`python -m emulators.servicebus`, from the `with` statement to its end. `arguments` are the program's own."""

    def __init__(self, *arguments: str) -> None:
        program = [sys.executable, "-m", "emulators.servicebus", "--port", "0", "--http-port", "0", "--json"]
        program += ["--stop-with-stdin", *arguments]  # it ends with this process, however that ends
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said:
            raise SystemExit("the emulator did not start")
        facts = json.loads(said)
        self.port: int = facts["port"]
        self.http_port: int = facts["http_port"]
        self.connection_string: str = facts["connection_string"]

    def processor(self) -> float:
        """Seconds spent so far, of all threads, in the program and in the system for it."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * _TICK

    def memory(self) -> int:
        """Octets resident."""
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) * _KILOBYTE

    def stop(self) -> None:
        """As an operator does; safe to call twice."""
        self._process.terminate()
        self._process.wait(120)

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *details: object) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

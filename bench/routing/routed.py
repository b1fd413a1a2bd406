"""`dstream router` as a process, with its workers, and what it makes of the work: by the clock, and by the system's count of processor time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType

from bench.routing.work import QUEUE
from bench.servicebus.broker import Broker

_TICK = 1 / os.sysconf("SC_CLK_TCK")
_CONFIG = """
ingester {{
  db_type = "sqlserver"
  server_name = "srv"
  database = "db"
  db_connection_string = "Server=localhost;Database=db;User Id=u;Password=pass"
  queue {{
    name = "{queue}"
    ordering = "key"
    connection_string = "{bus}"
  }}
  locks {{
    type = "azure_blob"
    connection_string = "DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:1/a"
    container_name = "locks"
  }}
  tables = ["Orders"]
}}
router {{
  workers = {workers}
  provision = "none"
  source {{
    connection_string = "{bus}"
  }}
  output {{
    connection_string = "{bus}"
  }}
}}
"""


class Router:
    """From the `with` statement, which waits until every worker routes, to its end."""

    def __init__(self, folder: Path, broker: Broker, workers: int) -> None:
        self._broker = broker
        config, self._log = folder / "dstream.hcl", folder / "router.log"
        config.write_text(_CONFIG.format(queue=QUEUE, bus=broker.connection_string, workers=workers))
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "dstream", "router", "--config", str(config)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while self._log.read_text().count("router started") < workers:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise SystemExit(self._log.read_text())
            time.sleep(0.05)

    def processor(self) -> float:
        """Seconds spent so far by the process and its workers."""
        return sum(map(_spent, [self._process.pid, *_children(self._process.pid)]))

    def left(self) -> int:
        """Messages that the queue still holds."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._broker.http_port}/", timeout=60) as answer:
            page = answer.read().decode()
        row = page.partition(f">{QUEUE}</a>")[2].partition("</tr>")[0]
        active, locked, _, scheduled, *_ = map(int, re.findall(r'<td class="n">(\d+)', row))
        return active + locked + scheduled

    def work_off(self, count: int, due: float) -> tuple[float, float]:
        """(messages a second, microseconds of processor time a message) from the first settled one until the queue is empty."""
        time.sleep(max(0.0, due - time.time()))
        first = self._below(count)
        spent, began = self.processor(), time.perf_counter()
        self._below(1)
        seconds, spent = time.perf_counter() - began, self.processor() - spent
        return first / seconds, spent / first * 1e6

    def _below(self, count: int) -> int:
        """What is left as soon as it is less than `count`."""
        while (left := self.left()) >= count:
            time.sleep(0.01)
        return left

    def __enter__(self) -> Router:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(30)


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _spent(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK

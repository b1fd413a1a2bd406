"""`dstream router` as a process, with its workers, and what it makes of the work: by the clock, and by the system's count of processor time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from bench.routing.work import QUEUE, SUBSCRIPTION, TOPIC
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
    pack = {pack}
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
{more}}}
"""


class Router:
    """From the `with` statement, which waits until every worker routes, to its end."""

    def __init__(self, folder: Path, broker: Broker, workers: int, pack: str = "1", *, more: str = "") -> None:
        """`more`: further settings of the router."""
        self._broker = broker
        config, self._log = folder / "dstream.hcl", folder / "router.log"
        written = pack if pack.isdecimal() else f'"{pack}"'
        bus = broker.connection_string
        config.write_text(_CONFIG.format(queue=QUEUE, bus=bus, workers=workers, pack=written, more=more))
        with self._log.open("wb") as log:
            command = [sys.executable, "-m", "dstream", "router", "--config", str(config)]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + 60
        while self._log.read_text().count("router started") < workers:
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise SystemExit(self._log.read_text())
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        """Of the process that was started."""
        return self._process.pid

    def processor(self) -> float:
        """Seconds spent so far by the process and its workers."""
        return sum(map(_spent, [self._process.pid, *_children(self._process.pid)]))

    def work_off(self, count: int, due: float) -> tuple[float, float]:
        """(changes a second, microseconds of processor time a change) from the first that arrives until the queue of `count` changes is empty."""
        time.sleep(max(0.0, due - time.time()))
        while not (first := self._held(f"{TOPIC}/Subscriptions/{SUBSCRIPTION}")):
            time.sleep(0.01)
        spent, began = self.processor(), time.perf_counter()
        while self._held(QUEUE):
            time.sleep(0.01)
        seconds, spent = time.perf_counter() - began, self.processor() - spent
        return (count - first) / seconds, spent / (count - first) * 1e6

    def _held(self, path: str) -> int:
        """Messages that an entity holds."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._broker.http_port}/", timeout=60) as answer:
            page = answer.read().decode()
        row = page.partition(f">{path}</a>")[2].partition("</tr>")[0]
        active, locked, _, scheduled, *_ = map(int, re.findall(r'<td class="n">(\d+)', row))
        return active + locked + scheduled

    def __enter__(self) -> Router:
        return self

    def __exit__(self, *details: object) -> None:
        self._process.terminate()
        self._process.wait(30)


def _children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _spent(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK

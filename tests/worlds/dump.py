"""What stands still, and who holds it: everything that a world can tell of itself when a verdict fails, before it is stopped.

Each part is asked for by itself, and what cannot be had says why: whatever hung the pipeline must not keep the rest from being told.
"""

from __future__ import annotations

import contextlib
import faulthandler
import html
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

from common.names import Origin
from dstream.demo.processes import Service
from dstream.demo.schema import TABLES
from dstream.emulators import Login
from emulators.sqlserver.server import SqlServerEmulator
from ingester.sqlserver.locks import resource

FOLDER = "DSTREAM_TEST_DUMPS"
"""The environment variable with the folder that keeps dumps; without it they are beside the logs, which pytest removes with time."""
_PATIENCE = 15.0
"""Seconds for each part."""
_A_STACK, _STACKS = 0.3, 1.0
"""Seconds for the stacks of a process to be written, and for the last to come through Spark's output."""
_LINES = 50
_PYTHON = b"python"


def dump(parts: Sequence[tuple[str, Callable[[], str]]], path: Path) -> str:
    """The text of all parts, under their names, which is then in the file as well."""
    text = "\n".join(f"== {name}\n{_within(part)}\n" for name, part in parts)
    path.write_text(text)
    return text


def _within(part: Callable[[], str]) -> str:
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(part).result(_PATIENCE)
    except Exception as error:  # a dump is told in the middle of another failure, which it must not hide
        return f"cannot be had: {type(error).__name__}: {error}"
    finally:
        pool.shutdown(wait=False)


def offsets(login: Login, origin: Origin) -> str:
    """Of each table its offset, the last change captured and what has been captured past the offset, and whether its lock is free."""
    with login.connect() as connection, connection.cursor() as cursor:

        def one(statement: str) -> tuple[Any, ...]:
            cursor.execute(statement)
            return tuple(cursor.fetchone() or ())

        lines = [f"fn_cdc_get_max_lsn {_hex(one('SELECT sys.fn_cdc_get_max_lsn()')[0])}"]
        for table in TABLES:
            instance = f"cdc.[{table.schema}_{table.table}_CT]"
            stored = one(
                "SELECT last_lsn, last_command_id, last_seq, epoch, updated_at FROM dbo.cdc_offsets "
                f"WHERE table_name = N'{table.key}'"
            )
            last, count = one(f"SELECT MAX([__$start_lsn]), COUNT(*) FROM {instance}")
            offset = None if not stored else stored[0]
            [beyond] = one(f"SELECT COUNT(*) FROM {instance} WHERE [__$start_lsn] > {_hex(offset)}")
            [free] = one(
                f"SELECT APPLOCK_TEST(N'public', N'{resource(origin.lock_path(table))}', N'Exclusive', N'Session')"
            )
            told = (
                f"{_hex(offset)} {stored[1]} {_hex(stored[2])} epoch {stored[3]} at {stored[4]}" if stored else "none"
            )
            lines.append(
                f"{table.key}: offset {told}; change table up to {_hex(last)}, {count} rows, {beyond} of later commits; "
                f"application lock {'free' if free else 'held'}"
            )
    return "\n".join(lines)


def sessions(login: Login) -> str:
    """Who is logged in."""
    with login.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT session_id, program_name, open_transaction_count FROM sys.dm_exec_sessions")
        return "\n".join(f"session {row[0]}: {row[1]}, transactions {row[2]}" for row in cursor)


def lock_holders(server: SqlServerEmulator) -> str:
    """Which session holds which application lock, in an emulator of this process."""
    engine: Any = server.engine
    names = {session.session_id: session.login_request.application for session in engine.sessions()}
    holds = engine.application_locks._holds
    return "\n".join(
        f"{lock.name}: session {owner.session_id}, {names.get(owner.session_id, 'which has ended')}"
        for lock, owners in list(holds.items())
        for owner in list(owners)
    )


def leases(connection_string: str) -> str:
    """The state of every blob's lease, and its epoch."""
    from azure.storage.blob import BlobServiceClient

    lines = []
    with BlobServiceClient.from_connection_string(connection_string, retry_total=0) as service:
        for container in service.list_containers():
            for blob in service.get_container_client(container.name).list_blobs(include=["metadata"]):
                lines.append(f"{container.name}/{blob.name}: {blob.lease.state}, {blob.lease.status}, {blob.metadata}")
    return "\n".join(lines)


def entities(http_port: int, paths: Sequence[str], host: str = "127.0.0.1") -> str:
    """What the Service Bus emulator's page says of these, sessions and their owners' times among it."""
    return "\n".join(_page(f"http://{host}:{http_port}/?entity={quote(path, safe='')}") for path in paths)


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=_PATIENCE) as answer:
        text: str = answer.read().decode()
    body = text[text.index("<body>") :]
    rows = re.sub(r"</t[dh]>\s*<t[dh][^>]*>", " | ", body)
    return "\n".join(line for line in html.unescape(re.sub(r"<[^>]+>", "\n", rows)).splitlines() if line.strip())


def sockets(services: Sequence[Service]) -> str:
    """The TCP connections of the services and of all processes below them."""
    pids = {pid for service in services if service.running for pid in tree(service.pid)}
    said = subprocess.run(["ss", "-tnpH"], capture_output=True, text=True, timeout=_PATIENCE, check=False).stdout
    return "\n".join(line for line in said.splitlines() if any(f"pid={pid}," in line for pid in pids))


def processes(services: Sequence[Service]) -> str:
    """What runs, and as what."""
    lines = []
    for service in services:
        if service.running:
            lines += [f"{service.log.stem}: {pid} {_command(pid)[:120]}" for pid in tree(service.pid)]
    return "\n".join(lines)


def ask_for_stacks(services: Sequence[Service]) -> str:
    """Every Python process of theirs writes its stacks into the log of its service; which these are."""
    return write_stacks([pid for service in services if service.running for pid in tree(service.pid)])


def write_stacks(pids: Sequence[int]) -> str:
    """Every Python process that knows the signal writes the stacks of its threads to its standard error; which these are."""
    asked = [pid for pid in pids if _tells_stacks(pid)]
    for pid in asked:  # one after the other: those of a service write to the same file
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)
        time.sleep(_A_STACK)
    time.sleep(_STACKS)
    return " ".join(map(str, asked))


def logs(services: Sequence[Service]) -> str:
    """The end of each log, and all stacks that are in it."""
    return "\n".join(f"-- {service.log}\n{end(service.log)}" for service in services)


_STACK = re.compile(r'(Current thread|Thread) 0x|  File "')


def end(log: Path) -> str:
    """The last lines of a log, and all stacks that are in it."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    stacks = [line for line in lines if _STACK.match(line)]
    rest = [line for line in lines if not _STACK.match(line)]
    return "\n".join([*rest[-_LINES:], *stacks])


def own_stacks() -> str:
    """Of this process, in which emulators, relays and the test run."""
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file)
        file.seek(0)
        text = file.read().decode()
    names = "\n".join(f"0x{thread.ident or 0:016x} {thread.name}" for thread in threading.enumerate())
    return f"{names}\n{text}"


def tree(pid: int) -> list[int]:
    """A process and everything below it: the JVM and Spark's workers are in groups of their own."""
    pids, at = [pid], 0
    while at < len(pids):
        pids += _children(pids[at])
        at += 1
    return pids


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):  # it, or a thread of it, has just ended
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                yield from map(int, (task / "children").read_text().split())


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return "has ended"


def _tells_stacks(pid: int) -> bool:
    """It is Python, and would not be ended by the signal."""
    with contextlib.suppress(OSError):
        caught = re.search(r"SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text())
        program = Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
        return caught is not None and bool(int(caught[1], 16) >> (signal.SIGUSR1 - 1) & 1) and _PYTHON in program
    return False


def _hex(value: object) -> str:
    return f"0x{value.hex()}" if isinstance(value, bytes) else "0x00" if value is None else str(value)

"""A server that the demo starts on a free port of this machine, with its files in a temporary folder. It ends with the demo, however that ends."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from common.errors import ConfigurationError, PermanentError
from dstream.children import lifeline

STARTS = 60.0
"""Seconds that a server has until it answers."""

_STOPS = 10.0

_KEPT = """\
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
trap 'kill "$server"' TERM
{ trap - TERM; cat <&3 >/dev/null; kill "$server"; } &
exec 3<&-
wait "$server"
wait "$server" # SIGTERM ended the first wait
"""
"""Runs a command, and asks it to stop on SIGTERM and when standard input ends."""


def free_port() -> int:
    """One that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def run_name() -> str:
    """For this run alone: a server that runs already may have places of earlier runs."""
    return f"demo-{uuid.uuid4().hex[:8]}"


def require(answers: Callable[[], bool], where: str) -> None:
    """A server that runs already must answer. Raises PermanentError."""
    if not answers():
        raise PermanentError(f"reaching {where}: there is no answer", hint="check --server, and that the server runs")


def found(name: str, remedy: str, *folders: Path) -> Path:
    """The program `name`, on PATH or in one of `folders`. Raises ConfigurationError with `remedy`."""
    if (there := shutil.which(name)) is not None:
        return Path(there)
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    raise ConfigurationError([f"--output: {name} is not found on this machine"], hint=remedy)


class Program:
    """One process. `folder`: its files; it is removed when the program is stopped."""

    def __init__(self, name: str, *, unprivileged: bool = False) -> None:
        """`unprivileged`: it refuses to run as root, and runs as nobody then."""
        self._name = name
        self._nobody = pwd.getpwnam("nobody") if unprivileged and os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix=f"dstream-demo-{name}-"))
        self._own(self.folder)
        self._process: subprocess.Popen[bytes] | None = None

    def _own(self, path: Path) -> None:
        if self._nobody is not None:
            os.chown(path, self._nobody.pw_uid, self._nobody.pw_gid)

    @property
    def _user(self) -> dict[str, Any]:
        return {} if self._nobody is None else {"user": self._nobody.pw_uid, "group": self._nobody.pw_gid}

    def write(self, name: str, text: str) -> Path:
        """A file in its folder."""
        path = self.folder / name
        path.write_text(text)
        self._own(path)
        return path

    def run(self, command: Sequence[str]) -> None:
        """A command before the start. Raises PermanentError when it fails."""
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=STARTS, check=False, **self._user
        )
        if done.returncode:
            raise PermanentError(f"preparing {self._name}: {(done.stderr or done.stdout).strip()[-500:]}")

    def start(self, command: Sequence[str], answers: Callable[[], bool]) -> None:
        """Returns when `answers` returns True. Raises PermanentError."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                ["sh", "-c", _KEPT, "sh", *command],
                cwd=self.folder,
                stdin=lifeline(),
                stdout=log,
                stderr=log,
                process_group=0,
                **self._user,
            )
        deadline = time.monotonic() + STARTS
        while not answers():
            if self.died() or time.monotonic() > deadline:
                raise PermanentError(f"starting {self._name}: {(self.folder / 'log').read_text()[-500:].strip()}")
            time.sleep(0.1)

    def died(self) -> bool:
        """Whether it has ended by itself."""
        return self._process is not None and self._process.poll() is not None

    def stop(self) -> None:
        """Stop it, and remove its files."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOPS)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

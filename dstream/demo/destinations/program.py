"""A server that the demo starts on a free port of this machine, with its files in a folder of the demo's."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from common.errors import ConfigurationError, PermanentError

STARTS = 60.0
"""Seconds that a server has until it answers."""

_STOPS = 10.0


def free_port() -> int:
    """One that nothing listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


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

    def start(
        self, command: Sequence[str], answers: Callable[[], bool], variables: Mapping[str, str] | None = None
    ) -> None:
        """Returns when `answers` returns True. Raises PermanentError."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(variables or {})},
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
            try:
                process.wait(_STOPS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

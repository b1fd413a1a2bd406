"""The demo's changes in files of JSON lines."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from common.errors import ConfigurationError
from dstream.demo.destinations.program import run_name
from dstream.demo.reading import MessageReader
from dstream.demo.schema import TABLES

_LOOK = 0.5


class FileDestination:
    """`server`: the folder, which gets one of this run; None: a temporary one."""

    ingester = ""
    variables: Mapping[str, str] = MappingProxyType({})

    def __init__(self, server: str | None) -> None:
        self._own = server is None
        self._folder = (
            Path(server).absolute() / run_name() if server else Path(tempfile.mkdtemp(prefix="dstream-demo-"))
        )
        self.where = f"files in {self._folder}"

    def start(self) -> None:
        """There is no server, but a folder. Raises ConfigurationError."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(
                [f"--server {self._folder.parent}: {error.strerror}"], hint="name a folder"
            ) from error

    @property
    def block(self) -> str:
        root = json.dumps(str(self._folder))
        return f'type = "file"\nroot = {root}\npath = "{{schema}}.{{table}}"\nroll_time = "1s"\n'

    def reader(self) -> FileReader:
        return FileReader(self._folder)

    def died(self) -> bool:
        return False

    def stop(self) -> None:
        if self._own:
            shutil.rmtree(self._folder, ignore_errors=True)


class FileReader(MessageReader):
    """Reads finished files, in the order of their names."""

    def __init__(self, folder: Path) -> None:
        super().__init__(TABLES)
        self._folder = folder
        self._read: set[Path] = set()
        self._threads = [self.thread(self._run, "files")]

    def _run(self) -> None:
        while not self._stop.wait(_LOOK):
            for table in TABLES:
                for path in sorted((self._folder / f"{table.schema}.{table.table}").rglob("*.jsonl")):
                    if path not in self._read:
                        self._read.add(path)
                        for line in path.read_bytes().splitlines():
                            found = json.loads(line)
                            metadata = found["metadata"]
                            self.keep(table, line, metadata["EventID"], metadata["OperationType"])

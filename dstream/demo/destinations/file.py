"""The demo's changes in files of JSON lines."""

from __future__ import annotations

import json
import shutil
import tempfile
import threading
from pathlib import Path

from dstream.demo.reading import MessageReader
from dstream.demo.schema import TABLES

_LOOK = 0.5


class FileDestination:
    """`server`: the folder; None: a temporary one."""

    ingester = ""

    def __init__(self, server: str | None) -> None:
        self._own = server is None
        self.where = server or tempfile.mkdtemp(prefix="dstream-demo-files-")

    def start(self) -> None:
        """There is no server."""

    @property
    def block(self) -> str:
        return f'type = "file"\nroot = "{self.where}"\npath = "{{schema}}.{{table}}"\nroll_time = "1s"\n'

    def reader(self) -> FileReader:
        return FileReader(Path(self.where))

    def died(self) -> bool:
        return False

    def stop(self) -> None:
        if self._own:
            shutil.rmtree(self.where, ignore_errors=True)


class FileReader(MessageReader):
    """Reads finished files, in the order of their names."""

    def __init__(self, folder: Path) -> None:
        super().__init__(TABLES)
        self._folder = folder
        self._read: set[Path] = set()
        self._threads = [threading.Thread(target=self._run, name="files", daemon=True)]

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

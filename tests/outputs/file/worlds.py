"""Where the files of the contract are: a directory, and a container of Azurite."""

from __future__ import annotations

import json
import re
import tempfile
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.blob import BlobServiceClient, ContainerClient

from common.config.sizes import Size
from common.message import Message
from common.names import TableName
from router.outputs.file.names import OPEN_ROOM, FileName, parsed
from router.outputs.file.output import FileOutput
from router.outputs.file.settings import FileSettings
from router.outputs.port import Stream
from tests.azurite.proxy import Answer, Proxy
from tests.azurite.server import Azurite, connection_string, missing
from tests.outputs.contract.world import GENEROUS, ORIGIN, Arrival, Recipe, World, change
from tests.worlds.tcp_relay import TcpRelay

KEY = re.compile(r"AccountKey=([^;]+)")

ROLL = 40_000
"""Bytes: small, so that files are finished while others are written."""

NO_PLACES = "a folder is made with its first file, so no place of a table is ever missing"
LEAST = 4.0
"""Seconds: the shortest timeout of an output behind three relays, where opening a file takes five requests and the machine may be busy."""

OF_PLACES = (
    "test_a_missing_place",
    "test_a_missing_place_that_is_created_is_used_by_the_same_sender",
    "test_provision_verifies_and_names_all_that_is_missing",
    "test_findings_name_a_missing_place",
)
NO_SERVER = "a directory has no server and no way to it"
OF_SERVERS = (
    "test_a_busy_server_is_said_to_throttle",
    "test_a_slow_way",
    "test_a_way_that_is_too_slow_for_the_timeout_ends_in_time",
    "test_nothing_is_accepted_before_the_server_has_said_so",
    "test_every_call_of_a_mute_server_ends",
    "test_the_time_that_is_left_shortens_a_send",
    "test_a_server_that_is_away_and_back",
    "test_a_server_that_refuses_connections",
    "test_cut_again_and_again",
    "test_restarted_while_it_receives",
    "test_cut_calls_ends_what_is_in_flight",
    "test_close_ends_what_is_in_flight",
    "test_a_server_that_is_away_cannot_provision",
    "test_a_missing_right",
    "test_findings_of_a_missing_right",
    "test_findings_of_a_server_that_is_away",
    "test_no_secret_is_shown",
)


def output(timeout: float, roll_size: int = ROLL, **settings: Any) -> FileOutput:
    """In this process, or in one that the contract starts."""
    return FileOutput(
        FileSettings.model_validate(
            {
                "type": "file",
                "timeout": timedelta(seconds=timeout),
                "roll_size": Size(roll_size),
                "roll_time": timedelta(hours=1),
                **settings,
            }
        )
    )


Files = Mapping[tuple[str, FileName], Callable[[], bytes]]
"""By folder and name, finished or not: how to read it."""


class FileWorld(World):
    """Files of any store. Nothing that belongs to no session or message is in a line, so `Arrival` has its id alone."""

    impossible: ClassVar[Mapping[str, str]] = dict.fromkeys(OF_PLACES, NO_PLACES)

    @abstractmethod
    def files(self) -> Files:
        """Of all folders."""

    def destination(self, table: TableName) -> str:
        return FileSettings(type="file", root="/").place(ORIGIN, "", table)

    def refusable(self, stream: Stream, number: int, session: str | None) -> Message:
        whole = change(stream, number, session)
        return Message(
            b"not JSON", whole.message_id, whole.session_id, application_properties=whole.application_properties
        )

    def arrived(self, stream: Stream) -> Sequence[Arrival]:
        return [arrival(line) for line in self.lines(stream.destination)]

    def lines(self, folder: str) -> list[bytes]:
        """Of finished files and the open one, in the order of their names. Read when no file is finished meanwhile."""
        while True:
            before = self.files()
            names = sorted(name for of, name in before if of == folder)
            with suppress(FileNotFoundError, ResourceNotFoundError):  # finished at this moment
                read = [before[folder, name]() for name in names]
                if self.files().keys() == before.keys():
                    return [line for each in read for line in each.splitlines()]
            time.sleep(0.02)


def arrival(line: bytes) -> Arrival:
    return Arrival(json.loads(line)["metadata"]["EventID"], None, line)


def folder_and_name(path: str) -> tuple[str, FileName] | None:
    """Of a finished file, or of one that is not."""
    folder, _, last = path.rpartition("/")
    found = parsed(last)
    if found is None:
        return None
    name, state = found
    if state is not None:
        return folder.removeprefix(f"{OPEN_ROOM}/"), name
    return folder.removesuffix(f"/{name.day}"), name


class LocalWorld(FileWorld):
    """A directory below /tmp."""

    impossible: ClassVar[Mapping[str, str]] = {**FileWorld.impossible, **dict.fromkeys(OF_SERVERS, NO_SERVER)}

    def start(self) -> None:
        self.root = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))

    def stop(self) -> None:
        """Nothing runs."""

    @property
    def port(self) -> int:
        return 1

    def recipe(self, *, timeout: float = GENEROUS) -> Recipe:
        return Recipe("tests.outputs.file.worlds:output", {"timeout": timeout, "root": str(self.root)})

    def files(self) -> Files:
        return {
            found: path.read_bytes
            for path in self.root.rglob("*")
            if path.is_file() and (found := folder_and_name(path.relative_to(self.root).as_posix()))
        }


class BlobWorld(FileWorld):
    """Azurite, behind a proxy that answers in its place, and a way that can be cut: Azurite itself keeps nothing when it ends."""

    def __enter__(self) -> BlobWorld:
        if reason := missing():
            pytest.skip(reason)
        self._azurite = self._stack.enter_context(Azurite())
        self._proxy = self._stack.enter_context(Proxy(self._azurite.port))
        self._way = self._stack.enter_context(TcpRelay(self._proxy.port))
        service = self._stack.enter_context(
            BlobServiceClient.from_connection_string(connection_string(self._azurite.port))
        )
        self.container: ContainerClient = service.create_container("changes")
        super().__enter__()
        key = KEY.search(connection_string(1))
        assert key is not None
        self.secrets = [key[1]]
        return self

    @property
    def port(self) -> int:
        return int(self._way.port)

    def start(self) -> None:
        self._way.well()

    def stop(self) -> None:
        self._way.refuse()
        self._way.drop()

    def recipe(self, *, timeout: float = GENEROUS) -> Recipe:
        arguments = {"timeout": max(timeout, LEAST), "connection_string": connection_string(self.relay.port)}
        return Recipe("tests.outputs.file.worlds:output", arguments)

    def without_right(self, stream: Stream) -> Recipe:
        other = KEY.sub("AccountKey=b3RoZXI=", connection_string(self.relay.port))
        return Recipe("tests.outputs.file.worlds:output", {"timeout": GENEROUS, "connection_string": other})

    @contextmanager
    def busy(self) -> Iterator[None]:
        self._proxy.answer = Answer(503, "ServerBusy")
        try:
            yield
        finally:
            self._proxy.answer = None

    def files(self) -> Files:
        return {
            found: lambda name=blob.name: self.container.download_blob(name).readall()  # type: ignore[misc]
            for blob in self.container.list_blobs()
            if (found := folder_and_name(blob.name))
        }

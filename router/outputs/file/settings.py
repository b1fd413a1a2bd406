"""The settings of an output of type `file`. Opens nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from common.azure_blob.settings import AccountUrl, ContainerName, StorageString, conflicts_of_account, host_of
from common.bus.place import PlaceTemplate
from common.bus.settings import EnvelopedOutputSettings
from common.config.durations import Duration, between
from common.config.settings import Location
from common.config.sizes import MemorySize, Size
from common.names import Origin, TableName, escaped, shortened
from router.outputs.file.names import OPEN_ROOM
from router.outputs.lines import Line, binary_without_message

Compression = Literal["none", "gzip", "snappy", "zstd"]

LONGEST_NAME = 200
"""Characters of a folder's name. File systems take 255 bytes."""

_REFUSED = re.compile(r"_(?=x)|[^A-Za-z0-9_-]")
_OF_JSONL: tuple[Compression, ...] = ("none", "gzip")
_LEAST, _MOST = Size(1 << 10), Size(1 << 30)


def _path(text: str) -> str:
    folders = text.split("/")
    if not all(folders):
        raise ValueError("must be names of folders with single / between them, neither first nor last")
    if any(folder.strip(".") == "" for folder in folders) or "\\" in text or folders[0] == OPEN_ROOM:
        raise ValueError(f"must not have a folder . or .., a \\, or begin with {OPEN_ROOM}, the room of open files")
    if not all(c.isprintable() and c not in '<>:"|?*' for c in text):
        raise ValueError('must not have < > : " | ? * or characters that cannot be printed')
    return text


def _size(size: Size) -> Size:
    if not _LEAST <= size <= _MOST:
        raise ValueError(f"must be {_LEAST} to {_MOST}")
    return size


class FileSettings(EnvelopedOutputSettings):
    """Files of JSON lines or Parquet, a folder for each table. Needs `root`, or a storage account."""

    type: Literal["file"] = Field(description="`file`: files, in a directory or in Azure Blob Storage.")
    root: str | None = Field(
        default=None,
        description=(
            "The directory that the folders are in. Several routers may share it if its file system has locks (flock), as local ones and NFS 4 "
            "have. This, or `connection_string` or `account_url` must be given. None, the default: the folders are in a container."
        ),
    )
    connection_string: StorageString | None = Field(
        default=None,
        description="Connection string of the storage account that the folders are in. Secret. None, the default: there is a root or an identity.",
    )
    account_url: AccountUrl | None = Field(
        default=None,
        description=(
            "Address of the storage account, `https://ACCOUNT.blob.core.windows.net`, to be used with the identity that the process runs "
            "under (DefaultAzureCredential) instead of a key. None, the default: the connection string has address and key, or there is a root."
        ),
    )
    container_name: ContainerName = Field(
        default="changes",
        description="Blob container of the folders. `changes` says what is in it; with `root` it has no effect.",
    )
    path: Annotated[PlaceTemplate, AfterValidator(_path)] = Field(
        default="{server}.{database}/{schema}.{table}",
        description=(
            "The folder of a table's files. `{server}`, `{database}`, `{schema}`, `{table}` and `{topic}` stand for its names. Below it are folders "
            "for year, month and day. The default has a folder for each database, and a table's folder in it."
        ),
    )
    format: Literal["jsonl", "parquet"] = Field(
        default="jsonl",
        description="`jsonl`: a line of JSON for each message. `parquet`: a row for each. `jsonl`, the default, needs no further library.",
    )
    line: Line = Field(
        default="body",
        description=(
            'With `format = "jsonl"`: what a line holds, `body` (the message\'s body) or `message` (an object with `id`, `session`, `subject`, '
            "`content_type`, `properties` and `body`). `body` is the default because DStream's own envelope has the id inside."
        ),
    )
    compression: Compression | None = Field(
        default=None,
        description=(
            "Of finished files: `none` or `gzip` with JSON lines; `none`, `gzip`, `snappy` or `zstd` with Parquet. None, the default: `none` with "
            "JSON lines, so that every tool reads them, and `zstd` with Parquet."
        ),
    )
    roll_size: Annotated[MemorySize, AfterValidator(_size)] = Field(
        default=Size(64 << 20),
        description=(
            "A file is finished when its lines have this size, before compression; `1KB` to `1GB`. `64MB` is what readers of Parquet and of JSON "
            "lines like."
        ),
    )
    roll_time: Annotated[Duration, between(timedelta(seconds=1), timedelta(days=1))] = Field(
        default=timedelta(minutes=5),
        description="A file is finished at this age, `1s` to `24h`, so consumers wait no longer. `5m`: 288 files a day for each busy table.",
    )
    fsync: bool = Field(
        default=True,
        description=(
            "With `root`: a message is accepted when the disk has it. `false`: when the operating system has it, so that a crash of the machine "
            "loses messages. The default is `true`, because nothing may be lost."
        ),
    )
    timeout: Annotated[Duration, between(timedelta(seconds=1), timedelta(minutes=10))] = Field(
        default=timedelta(seconds=30),
        description=(
            "How long one addition to a file may take, `1s` to `10m`. `30s` is enough for a slow network; then its session waits and others go on."
        ),
    )

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        yield from super().conflicts(given)
        if given.get("root") is None:
            yield from conflicts_of_account(given, 'of type "file" needs root, or')
        elif any(given.get(key) is not None for key in ("connection_string", "account_url")):
            yield (), "has both a root and a storage account; give only one of them"
        if given.get("format") == "parquet":
            if given.get("cloudevents_mode") == "binary":
                yield ("cloudevents_mode",), '"binary" cannot be Parquet: the attributes are properties'
            return
        yield from binary_without_message(given)
        if given.get("compression") in ("snappy", "zstd"):
            yield ("compression",), f'must be one of {", ".join(_OF_JSONL)} with format = "jsonl"'

    @property
    def without_effect(self) -> list[tuple[str, str]]:
        found = list(super().without_effect)
        if self.format == "parquet" and "line" in self.model_fields_set:
            found.append(("line", 'Parquet has columns; remove it, or set format = "jsonl"'))
        if self.root is None and "fsync" in self.model_fields_set:
            found.append(("fsync", "Blob Storage always has what it accepted; remove it"))
        if self.root is not None and "container_name" in self.model_fields_set:
            found.append(("container_name", "the files are in a directory; remove it"))
        return found

    @property
    def place_setting(self) -> str:
        return "path"

    @property
    def where(self) -> str:
        if self.root is not None:
            return self.root
        host = urlsplit(self.account_url).netloc if self.connection_string is None else host_of(self.connection_string)
        return f"{host!s}/{self.container_name}"

    @property
    def by_key(self) -> bool:
        return self.connection_string is not None

    @property
    def ending(self) -> str:
        if self.format == "parquet":
            return "parquet"
        return "jsonl.gz" if self.compression == "gzip" else "jsonl"

    @property
    def compressed(self) -> Compression:
        return self.compression or ("zstd" if self.format == "parquet" else "none")

    def escape(self, text: str) -> str:
        return escaped(text, _REFUSED)

    def place(self, origin: Origin, topic: str, table: TableName | None, *, instead: str | None = None) -> str:
        """No name of a folder is too long: each is shortened by itself."""
        found = super().place(origin, topic, table, instead=instead)
        return "/".join(shortened(folder, LONGEST_NAME) for folder in found.split("/"))

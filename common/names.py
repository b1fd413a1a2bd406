"""Every name that DStream gives to topics, locks, sessions and offset keys; and the table names that people write.

Pure: a name follows from the configuration alone, never from the machine, so that replicas and both stages agree.
Two tables never share a name. Characters that a target refuses are escaped one to one, as FOR XML escapes column names
(`Order Details` -> `Order_x0020_Details`), and a name that is too long ends in a hash of the whole.
https://learn.microsoft.com/en-us/azure/service-bus-messaging/service-bus-quotas (entity names)
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Ordering = Literal["table", "key", "none"]

TOPIC_LIMIT = 260  # Service Bus: topic and queue names
SESSION_LIMIT = 128  # Service Bus: session ids
BLOB_LIMIT = 1024  # Blob storage: blob names
KEY_LIMIT = 255  # cdc_offsets.table_name is NVARCHAR(255)
IDENTIFIER_LIMIT = 128  # sysname

_TOPIC_REFUSES = re.compile(r"_(?=x)|[^a-z0-9_-]")
_PATH_REFUSES = re.compile(r"_(?=x)|[^A-Za-z0-9_-]")
_KEY_IN_PATH_REFUSES = re.compile(r"_(?=x)|[/\\\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"_x([0-9a-f]{8}|[0-9a-f]{4})_")
_SERVER_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_-]*[A-Za-z0-9])?")
_BARE_PART = re.compile(r"[^.\[\]\"]+")
_BRACKETED_PART = re.compile(r"\[((?:[^\]]|\]\])*)\]")


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table's schema and name as the server spells them, unquoted."""

    schema: str
    table: str

    def __post_init__(self) -> None:
        for part in (self.schema, self.table):
            if not part:
                raise ValueError("has an empty part")
            if len(part.encode("utf-16-le")) // 2 > IDENTIFIER_LIMIT:
                raise ValueError(f"has a part of more than {IDENTIFIER_LIMIT} characters, SQL Server's limit")

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Read `Persons` (schema dbo), `sales.Orders` or `[sales].[Order Details]`; raises ValueError."""
        parts = [part for part, _ in parts_of(text)]
        if len(parts) > 2:
            raise ValueError("has more than two parts; write schema.table (the database is part of the address)")
        return cls("dbo", parts[0]) if len(parts) == 1 else cls(*parts)

    @property
    def quoted(self) -> str:
        """As QUOTENAME writes it, safe inside T-SQL: `[sales].[Order Details]`."""
        return f"{quote_name(self.schema)}.{quote_name(self.table)}"

    @property
    def key(self) -> str:
        """The key in `cdc_offsets`: `dbo.Persons`. A part with dots or brackets stays in brackets, so no two tables share a key."""
        return shortened(".".join(_bare_or_bracketed(part) for part in (self.schema, self.table)), KEY_LIMIT)

    def __str__(self) -> str:
        return self.key


TRANSACTIONS = TableName("cdc", "transactions")
"""The name under which the events about transactions have a topic, a lock and an offset, as a table has."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The database that changes come from: the server's label and the database, as names contain them."""

    server: str
    database: str

    def topic(self, table: TableName) -> str:
        """`server.database.persons.events`, with the schema before the table unless it is dbo; lower case, at most 260 characters.

        Lower case is the contract, so `Persons` and `persons` share a name. `colliding` finds such pairs, and the settings refuse them.
        """
        schema = () if table.schema.lower() == "dbo" else (table.schema,)
        labels = (self.server, self.database, *schema, table.table)
        return shortened(".".join(escape_for_topics(label) for label in labels), TOPIC_LIMIT, ".events")

    @property
    def topics_begin(self) -> tuple[str, ...]:
        """The prefixes of its tables' topics; none when its names are too long and so shortened."""
        topic, last = self.topic(TableName("dbo", "t")), "t.events"
        begin = topic.removesuffix(last)
        return (begin,) if begin.endswith(".") and len(topic) < TOPIC_LIMIT else ()

    def table_of(self, topic: str) -> TableName | None:
        """The table, in lower case, that has this topic; None when no table could have it, or when the name may be shortened."""
        begin = next((each for each in self.topics_begin if topic.startswith(each)), None)
        if begin is None or len(topic) >= TOPIC_LIMIT:
            return None
        labels = topic.removeprefix(begin).removesuffix(".events").split(".")
        try:
            schema, table = [
                _ESCAPE.sub(lambda found: chr(int(found[1], 16)), label) for label in ("dbo", *labels)[-2:]
            ]
            found = TableName(schema, table)
        except (ValueError, OverflowError):
            return None
        return found if self.topic(found) == topic else None

    def lock_path(self, table: TableName) -> str:
        """`server/database/schema.table.lock`, spelled as configured, at most 1,024 characters."""
        folders = f"{escaped(self.server.lower(), _PATH_REFUSES)}/{escaped(self.database, _PATH_REFUSES)}"
        return shortened(f"{folders}/{escaped(table.key, _KEY_IN_PATH_REFUSES)}", BLOB_LIMIT, ".lock")

    def session_id(self, table: TableName, ordering: Ordering, *, bucket: int = 0) -> str | None:
        """The session of a change: the table's topic, followed by `#bucket` with ordering by key. None without sessions."""
        return _session(self.topic(table), ordering, bucket)

    def side_session_id(self, table: TableName, topic: str, ordering: Ordering, *, bucket: int = 0) -> str | None:
        """The session of what goes to `topic` instead of the table's topic: `@topic` follows the table's own, so that neither waits for the other."""
        return _session(f"{self.topic(table)}@{topic}", ordering, bucket)


def server_label(host: str) -> str:
    """The server's part of a name: the first label of a host name, or all parts of an address joined by `-`."""
    bare = host.strip("[]").partition("%")[0]
    try:
        return re.sub(r"[.:]", "-", ipaddress.ip_address(bare).exploded)
    except ValueError:
        return "localhost" if host.lower() in (".", "(local)") else host.partition(".")[0].lower()


def check_server_name(text: str) -> str:
    """Return a server name that may begin a topic's name. Raises ValueError for others, such as one with dots, which separate the parts."""
    if not _SERVER_NAME.fullmatch(text) or len(text) > IDENTIFIER_LIMIT:
        raise ValueError("must be letters, digits, - and _, beginning and ending with a letter or digit")
    return text


def quote_name(name: str) -> str:
    """QUOTENAME: https://learn.microsoft.com/en-us/sql/t-sql/functions/quotename-transact-sql"""
    return "[" + name.replace("]", "]]") + "]"


def colliding(origin: Origin, tables: Sequence[TableName]) -> list[tuple[TableName, TableName]]:
    """Pairs (earlier, later) of tables that would share a topic, because their names differ only in case or not at all."""
    seen: dict[str, TableName] = {}
    pairs = []
    for table in tables:
        first = seen.setdefault(origin.topic(table), table)
        if first is not table:
            pairs.append((first, table))
    return pairs


def parts_of(text: str) -> list[tuple[str, bool]]:
    """The parts of a dotted name, and whether each stood in brackets, which may contain anything; `]]` stands for `]`. Raises ValueError."""
    parts, at = list[tuple[str, bool]](), 0
    while True:
        while text[at : at + 1].isspace():
            at += 1
        if (bracketed := _BRACKETED_PART.match(text, at)) is not None:
            parts.append((bracketed[1].replace("]]", "]"), True))
            at = bracketed.end()
        elif (bare := _BARE_PART.match(text, at)) is not None:
            parts.append((bare[0].rstrip(), False))
            at = bare.end()
        else:
            raise ValueError("must be a table's name such as Persons, sales.Orders or [sales].[Order Details]")
        while text[at : at + 1].isspace():
            at += 1
        if at == len(text):
            return parts
        if text[at] != ".":
            raise ValueError("must be a table's name such as Persons, sales.Orders or [sales].[Order Details]")
        at += 1


def _session(name: str, ordering: Ordering, bucket: int) -> str | None:
    if ordering == "none":
        return None
    return shortened(name, SESSION_LIMIT, f"#{bucket}" if ordering == "key" else "")


def _bare_or_bracketed(part: str) -> str:
    return part if _BARE_PART.fullmatch(part) and part == part.strip() else quote_name(part)


def escape_for_topics(text: str) -> str:
    """As a part of a topic's name on Service Bus, in lower case."""
    return escaped(text.lower(), _TOPIC_REFUSES)


def escaped(text: str, refused: re.Pattern[str]) -> str:
    """Replace each refused character by `_xHHHH_` (eight digits past U+FFFF). A literal `_x` is escaped, too, so it stays one to one."""
    return refused.sub(lambda found: f"_x{ord(found[0]):0{4 if ord(found[0]) <= 0xFFFF else 8}x}_", text)


def shortened(text: str, limit: int, ending: str = "") -> str:
    """`text` + `ending`. Past the limit: its beginning, 32 digits of the SHA-256 of the whole, and `ending`, so that no two are equal."""
    if len(text) + len(ending) <= limit:
        return text + ending
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"{text[: limit - len(ending) - len(digest) - 1]}-{digest}{ending}"

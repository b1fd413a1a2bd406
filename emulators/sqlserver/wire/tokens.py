"""The tokens a server sends (MS-TDS 2.2.7), one function each: values in, bytes out.

It decides nothing: in which order tokens follow each other, and which status a DONE carries, is response.py's business.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum, IntFlag

from emulators.sqlserver.collation import known
from emulators.sqlserver.results import Column, ErrorMessage, Info, ReturnValue, SqlError
from emulators.sqlserver.wire.prelogin import SERVER_VERSION
from emulators.sqlserver.wire.rows import cell_encoder, utf16
from emulators.sqlserver.wire.typeinfo import is_long, type_info, user_type

PROGRAM = "Microsoft SQL Server"
_DONE = struct.Struct("<BHHQ")
_MAX_TEXT = 2047
"""Characters of a message: SQL Server cuts longer ones, and a token's length field has two bytes."""


class Done(IntEnum):
    """The three ways to end a statement: in a batch, a whole procedure, a statement inside a procedure."""

    DONE = 0xFD
    DONEPROC = 0xFE
    DONEINPROC = 0xFF


class Status(IntFlag):
    FINAL = 0x00
    MORE = 0x01
    ERROR = 0x02
    INXACT = 0x04
    COUNT = 0x10
    ATTENTION = 0x20


class Command(IntEnum):
    """CurCmd of DONE: what kind of statement ended."""

    NONE = 0x00
    SELECT = 0xC1
    INSERT = 0xC3
    ROLLBACK = 0xD2
    BEGIN = 0xD4
    COMMIT = 0xD5
    SAVE = 0xD6


class Environment(IntEnum):
    DATABASE = 1
    LANGUAGE = 2
    PACKET_SIZE = 4
    COLLATION = 7
    BEGIN = 8
    COMMIT = 9
    ROLLBACK = 10
    RESET_DONE = 18
    ROUTING = 20


def b_varchar(text: str) -> bytes:
    data = utf16(text)[: 2 * 255]
    return bytes([len(data) // 2]) + data


def us_varchar(text: str) -> bytes:
    data = utf16(text)
    return struct.pack("<H", len(data) // 2) + data


def done(token: Done, status: Status, command: Command = Command.NONE, count: int = 0) -> bytes:
    return _DONE.pack(token, status, command, count)


def environment_change(kind: Environment, new: bytes = b"\0", old: bytes = b"\0") -> bytes:
    """ENVCHANGE; `new` and `old` come with their own length byte."""
    body = bytes([kind]) + new + old
    return b"\xe3" + struct.pack("<H", len(body)) + body


def text_change(kind: Environment, new: str, old: str = "") -> bytes:
    return environment_change(kind, b_varchar(new), b_varchar(old))


def routing_change(host: str, port: int) -> bytes:
    """ENVCHANGE 20: log in there instead, by TCP; its lengths have two bytes, and there is no old value (MS-TDS 2.2.7.9)."""
    value = struct.pack("<BHH", 0, port, len(host)) + utf16(host)
    return environment_change(Environment.ROUTING, struct.pack("<H", len(value)) + value, b"\0\0")


def collation_change(new: str, old: str | None = None) -> bytes:
    """ENVCHANGE 7 with the names of collations; "" is the server's, None: there was none before."""
    before = b"\0" if old is None else b"\5" + known(old).wire
    return environment_change(Environment.COLLATION, b"\5" + known(new).wire, before)


def transaction_change(kind: str, descriptor: int) -> bytes:
    """ENVCHANGE 8, 9, 10: a begin tells the new descriptor, an end the old one. Raises ValueError for another kind."""
    value = b"\x08" + struct.pack("<Q", descriptor)
    if kind == "begin":
        return environment_change(Environment.BEGIN, new=value)
    if kind == "commit":
        return environment_change(Environment.COMMIT, old=value)
    if kind == "rollback":
        return environment_change(Environment.ROLLBACK, old=value)
    raise ValueError(f"a transaction cannot {kind}")


def error(message: ErrorMessage | SqlError, server: str) -> bytes:
    return _message(0xAA, message, server)


def info(message: Info, server: str) -> bytes:
    return _message(0xAB, message, server)


def _message(token: int, m: ErrorMessage | SqlError | Info, server: str) -> bytes:
    body = struct.pack("<iBB", m.number, m.state & 0xFF, m.severity & 0xFF)
    body += us_varchar(m.message[:_MAX_TEXT]) + b_varchar(server) + b_varchar(m.procedure) + struct.pack("<i", m.line)
    return bytes([token]) + struct.pack("<H", len(body)) + body


def login_ack(tds_version: int) -> bytes:
    """LOGINACK: interface T-SQL, the protocol's version in network order, the program and its version."""
    major, minor, build = SERVER_VERSION
    body = b"\x01" + struct.pack(">I", tds_version) + b_varchar(PROGRAM) + struct.pack(">BBH", major, minor, build)
    return b"\xad" + struct.pack("<H", len(body)) + body


def feature_ext_ack(*, federated: bool = False, nonce: bytes | None = None) -> bytes:
    """FEATUREEXTACK that grants nothing but a login by token; `nonce`: the client's, told again."""
    if not federated:
        return b"\xae\xff"
    data = nonce or b""
    return b"\xae" + struct.pack("<BI", 2, len(data)) + data + b"\xff"


def column_metadata(columns: Sequence[Column]) -> bytes:
    parts = [b"\x81", struct.pack("<H", len(columns))]
    for column in columns:
        parts.append(struct.pack("<IH", user_type(column.type), _flags(column)))
        parts.append(type_info(column.type))
        if is_long(column.type):
            parts.append(b"\x01" + us_varchar(""))
        parts.append(b_varchar(column.name))
    return b"".join(parts)


def _flags(column: Column) -> int:
    nullable, unknown_updatability, identity = 0x01, 0x08, 0x10
    return (nullable if column.nullable else 0) | unknown_updatability | (identity if column.identity else 0)


def return_status(value: int) -> bytes:
    return b"\x79" + struct.pack("<i", value)


def return_value(value: ReturnValue, ordinal: int) -> bytes:
    """RETURNVALUE of an OUTPUT parameter; `ordinal` is its place among the RPC's parameters, from 0."""
    head = struct.pack("<BH", 0xAC, ordinal) + b_varchar(value.name) + b"\x01"
    kind = struct.pack("<IH", user_type(value.type), 0x01) + type_info(value.type)
    return head + kind + cell_encoder(value.type)(value.value)

"""Transaction-manager requests (MS-TDS 2.2.6.9): begin, commit, rollback, save; parsing only.

Distributed transactions (DTC address, propagate, promote) are refused by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from emulators.sqlserver.results import SqlError
from emulators.sqlserver.wire.errors import ProtocolError
from emulators.sqlserver.wire.reader import Reader, after_all_headers, decode_ucs2


class Action(IntEnum):
    BEGIN = 5
    COMMIT = 7
    ROLLBACK = 8
    SAVE = 9


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction to begin; `isolation` as SET TRANSACTION ISOLATION LEVEL names it, None to keep the session's."""

    isolation: str | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class TransactionRequest:
    """What is asked for; `name`: of the transaction or savepoint. `begin`: what a BEGIN starts, or what follows a commit or rollback at once."""

    action: Action
    name: str = ""
    begin: Begin | None = None


_DISTRIBUTED = {0: "TM_GET_DTC_ADDRESS", 1: "TM_PROPAGATE_XACT", 6: "TM_PROMOTE_XACT"}
_ISOLATION = {
    0: None,
    1: "READ UNCOMMITTED",
    2: "READ COMMITTED",
    3: "REPEATABLE READ",
    4: "SERIALIZABLE",
    5: "SNAPSHOT",
}
_BEGIN_NEXT = 0x01


def parse(data: bytes) -> TransactionRequest:
    """Read a request. Raises ProtocolError; SqlError 50001 for distributed transactions.

    Clients disagree on a name's length byte: some count characters, others bytes. The reading that uses up the message wins.
    """
    reader = after_all_headers(data)
    number = reader.u16()
    if number in _DISTRIBUTED:
        raise SqlError(50001, f"The emulator does not support distributed transactions ({_DISTRIBUTED[number]}).")
    if number not in tuple(Action):
        raise ProtocolError(f"{number} is no transaction-manager request")
    start = reader.position
    for unit in (1, 2):
        try:
            request, left = _request(Action(number), Reader(data, start), unit)
        except ProtocolError:
            continue
        if not left:
            return request
    raise ProtocolError(f"the payload of transaction-manager request {number} cannot be read")


def _request(action: Action, reader: Reader, unit: int) -> tuple[TransactionRequest, int]:
    if action is Action.BEGIN:
        begin = _begin(reader, unit)
        return TransactionRequest(action, begin.name, begin), reader.remaining
    name = _name(reader, unit)
    following = None
    if action is not Action.SAVE and reader.remaining and reader.u8() & _BEGIN_NEXT:
        following = _begin(reader, unit)
    return TransactionRequest(action, name, following), reader.remaining


def _begin(reader: Reader, unit: int) -> Begin:
    level = reader.u8()
    if level not in _ISOLATION:
        raise ProtocolError(f"{level} is no isolation level")
    return Begin(_ISOLATION[level], _name(reader, unit) if reader.remaining else "")


def _name(reader: Reader, unit: int) -> str:
    return decode_ucs2(reader.take(reader.u8() * unit))

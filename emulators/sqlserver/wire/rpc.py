"""RPC requests (MS-TDS 2.2.6.6): which procedure, with which typed parameters; one message may hold several.

It parses; what the well-known procedures mean is prepared.py's business.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from emulators.sqlserver.results import Parameter, SqlError
from emulators.sqlserver.wire.errors import ProtocolError
from emulators.sqlserver.wire.parameters import typed_value
from emulators.sqlserver.wire.reader import Reader, after_all_headers

MAX_PARAMETERS = 2100

_BY_NUMBER = 0xFFFF
_SEPARATORS = (0xFF, 0xFE)
_BY_REFERENCE = 0x01
_DEFAULT = 0x02
_ENCRYPTED = 0x08

_PROCEDURES = {
    1: "sp_cursor",
    2: "sp_cursoropen",
    3: "sp_cursorprepare",
    4: "sp_cursorexecute",
    5: "sp_cursorprepexec",
    6: "sp_cursorunprepare",
    7: "sp_cursorfetch",
    8: "sp_cursoroption",
    9: "sp_cursorclose",
    10: "sp_executesql",
    11: "sp_prepare",
    12: "sp_execute",
    13: "sp_prepexec",
    14: "sp_prepexecrpc",
    15: "sp_unprepare",
}


@dataclass(frozen=True, slots=True)
class Call:
    """One procedure call as it came."""

    name: str
    parameters: Sequence[Parameter]

    def ordinal(self, name: str, nth: int) -> int:
        """The place of an OUTPUT parameter, which RETURNVALUE tells: found by its name, else the nth one asked for."""
        outputs = [place for place, p in enumerate(self.parameters) if p.output]
        named = [place for place in outputs if name and self.parameters[place].name.lower() == name.lower()]
        return named[0] if named else outputs[nth] if nth < len(outputs) else nth


def parse(data: bytes) -> Sequence[Call]:
    """All calls of an RPC message. Raises ProtocolError; SqlError for parameters of a type that is not supported."""
    reader = after_all_headers(data)
    calls = [_call(reader)]
    while reader.remaining:
        if reader.u8() not in _SEPARATORS:
            raise ProtocolError("an RPC is followed by something else than another")
        if reader.remaining:
            calls.append(_call(reader))
    return calls


def _call(reader: Reader) -> Call:
    name = _name(reader)
    reader.u16()  # recompile, metadata flags: they ask for nothing this server could do otherwise
    parameters: list[Parameter] = []
    while reader.remaining and reader.peek() not in _SEPARATORS:
        if len(parameters) == MAX_PARAMETERS:
            raise SqlError(
                8003,
                "The incoming request has too many parameters. The server supports a maximum of 2100 parameters. "
                "Reduce the number of parameters and resend the request.",
            )
        parameters.append(_parameter(reader))
    return Call(name, parameters)


def _name(reader: Reader) -> str:
    length = reader.u16()
    if length != _BY_NUMBER:
        return reader.ucs2(length)
    number = reader.u16()
    if number not in _PROCEDURES:
        raise ProtocolError(f"{number} is no procedure's number")
    return _PROCEDURES[number]


def _parameter(reader: Reader) -> Parameter:
    name = reader.b_varchar()
    flags = reader.u8()
    if flags & _ENCRYPTED:
        raise SqlError(50001, "The emulator does not support encrypted parameters (Always Encrypted).")
    type_, value = typed_value(reader)
    return Parameter(name, type_, value, output=bool(flags & _BY_REFERENCE), default=bool(flags & _DEFAULT))

"""Names in paths: tables, sources and outputs have slashes, dots and spaces in them."""

from __future__ import annotations

from typing import Final

from starlette.convertors import Convertor, register_url_convertor

from desk.console.http.gate import SLASH

CONVERTOR: Final = "named"


class NameConvertor(Convertor[str]):
    """One part of a path, with the slashes that were encoded in it."""

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        return value.replace(SLASH, "/")

    def to_string(self, value: str) -> str:
        return value.replace("/", SLASH)


register_url_convertor(CONVERTOR, NameConvertor())

"""The settings of an output of type `console`. Opens nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from common.bus.settings import EnvelopedOutputSettings
from common.config.settings import Location
from common.names import Origin, TableName
from router.outputs.lines import Line, binary_without_message


class ConsoleSettings(EnvelopedOutputSettings):
    """Every change a line of JSON on standard output."""

    one_process: ClassVar[bool] = True
    """Lines of several processes could get between each other in one pipe."""

    type: Literal["console"] = Field(description="`console`: every message is a line of JSON on standard output.")
    stream: Literal["stdout", "stderr"] = Field(
        default="stdout",
        description="Where the lines go: `stdout` or `stderr`. The log is on standard error, so `stdout`, the default, has nothing else.",
    )
    line: Line = Field(
        default="body",
        description=(
            "What a line holds: `body`, the message's body, or `message`, an object with `id`, `session`, `subject`, `content_type`, `properties` "
            "and `body`. `body` is the default because it is the message alone, and DStream's own envelope has the id inside."
        ),
    )

    @classmethod
    def conflicts(cls, given: Mapping[str, Any]) -> Iterator[tuple[Location, str]]:
        yield from super().conflicts(given)
        yield from binary_without_message(given)

    @property
    def place_setting(self) -> str:
        return "stream"

    @property
    def where(self) -> str:
        return "standard output" if self.stream == "stdout" else "standard error"

    def place(self, origin: Origin, topic: str, table: TableName | None, *, instead: str | None = None) -> str:
        """The same for all: there is one."""
        return self.stream

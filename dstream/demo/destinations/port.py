"""What the demo needs to send somewhere else: a server, a block of the configuration, and a reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from dstream.demo.reading import Reader


class Destination(Protocol):
    """One, with its server, which is started by `start` or runs already."""

    def start(self) -> None:
        """Returns when the server answers. Raises ConfigurationError where it is not found, PermanentError when it does not start or answer."""
        ...

    @property
    def block(self) -> str:
        """The settings of the output, `type` among them. A secret is in a variable."""
        ...

    @property
    def variables(self) -> Mapping[str, str]:
        """Variables of the environment that `block` reads."""
        ...

    @property
    def ingester(self) -> str:
        """Further settings of the ingester."""
        ...

    def reader(self) -> Reader: ...

    def died(self) -> bool:
        """Whether the server has ended by itself."""
        ...

    def stop(self) -> None: ...

    @property
    def where(self) -> str:
        """The server and its address, for a person."""
        ...

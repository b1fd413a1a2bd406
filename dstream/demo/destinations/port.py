"""What the demo needs to send somewhere else: a server, a block of the configuration, and a reader."""

from __future__ import annotations

from typing import Protocol

from dstream.demo.reading import Reader


class Destination(Protocol):
    """One, with its server, which is started by `start` or runs already."""

    def start(self) -> None:
        """Returns when the server answers. Raises ConfigurationError where it is not found, PermanentError when it does not start."""
        ...

    @property
    def block(self) -> str:
        """The settings of the output, `type` among them."""
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
        """The server's address, for a person."""
        ...

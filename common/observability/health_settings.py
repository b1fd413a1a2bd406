"""The `health` block of either stage: where metrics and health are served. Without the block no port is opened."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from common.config.settings import Settings


def _host(text: str) -> str:
    if not text or any(letter.isspace() for letter in text) or "/" in text:
        raise ValueError('must be an address of this machine or its name, such as "127.0.0.1"')
    return text


class HealthSettings(Settings):
    """`/healthz`, `/readyz` and `/metrics` of one stage on one HTTP port. Each stage has a block and a port of its own."""

    port: int = Field(
        default=8080,
        ge=1,
        le=65_535,
        description="The port. Two stages on one machine (`dstream server`) need two ports, unless one of them has no such block.",
    )
    host: Annotated[str, AfterValidator(_host)] = Field(
        default="0.0.0.0",
        description=(
            "The address to listen at. The default is `0.0.0.0`, every IPv4 address, because a container's probes and Prometheus connect from "
            "outside. `::` for IPv6, `127.0.0.1` for this machine only. There is no password, and table names are shown."
        ),
    )

    def meets(self, other: HealthSettings) -> bool:
        """Whether one machine cannot have both. `::` listens for IPv4 too."""
        hosts = {self.host, other.host}
        ipv4_and_ipv6 = any(":" in host for host in hosts) and not all(":" in host for host in hosts)
        every = "::" in hosts or ("0.0.0.0" in hosts and not ipv4_and_ipv6)
        return self.port == other.port and (self.host == other.host or every)

"""How a console was started, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from desk.configuring.allowed import NOTHING, Allowed
from desk.configuring.edited import Judge
from desk.configuring.making import Reads
from desk.console.access import Access
from desk.console.http.serving import Tls
from desk.console.present import Load


@dataclass(frozen=True, slots=True)
class Options:
    """`scrape`: health ports; none: those of the configuration. `grpc_port`: None: gRPC is not served. `audit_file`: None: the default place.

    `configmap`: NAMESPACE/NAME[/KEY] of the configuration in a cluster. `judge`, `reads`: of a configuration's text; None: it cannot be edited.
    """

    access: Access
    port: int
    config: Path
    grpc_port: int | None = None
    allow_changes: bool = False
    token_file: Path | None = None
    audit_file: Path | None = None
    scrape: tuple[str, ...] = ()
    look_every: float = 5.0
    tls: Tls | None = None
    load: Load | None = None
    configmap: str | None = None
    judge: Judge | None = None
    reads: Reads | None = None
    allowed: Allowed = NOTHING

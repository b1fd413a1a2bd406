"""Where the cluster keeps its files, and which addresses and ports it takes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(
    os.environ.get("DSTREAM_CLUSTER")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dstream-cluster"
)
BIN = ROOT / "bin"
"""Kept for ever: what was compiled."""
STATE = ROOT / "state"
"""Lasts as long as the cluster."""
LOGS = ROOT / "logs"
KUBECONFIG = STATE / "kubeconfig"

BRIDGE = "dstream-k8s"
HOST = "10.201.0.1"
"""This machine, as nodes and pods see it. The API server and DNS are here."""
API_PORT = 26443
ETCD_PORT = 22379
SERVICES = "10.97.0.0/24"
PODS = "10.245.0.0/16"


@dataclass(frozen=True, slots=True)
class Node:
    number: int
    """From 1."""

    @property
    def name(self) -> str:
        return f"node{self.number}"

    @property
    def namespace(self) -> str:
        """Its network namespace."""
        return f"{BRIDGE}-{self.name}"

    @property
    def link(self) -> str:
        """The end of its cable that is on the bridge; at most 15 characters."""
        return f"dk8s-{self.name}"

    @property
    def address(self) -> str:
        return f"10.201.0.{10 + self.number}"

    @property
    def pods(self) -> str:
        return f"10.245.{self.number}.0/24"

    @property
    def folder(self) -> Path:
        return STATE / self.name

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

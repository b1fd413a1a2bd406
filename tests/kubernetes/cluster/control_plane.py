"""The cluster's control plane, as processes of this machine: etcd, the API server, controllers, the scheduler, DNS."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.kubernetes.cluster import services
from tests.kubernetes.cluster.places import API_PORT, BIN, ETCD_PORT, HOST, KUBECONFIG, SERVICES, STATE

_ADMINISTRATOR = "system:masters"


def etcd(folder: Path, port: int) -> list[str]:
    """The command."""
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 1}"
    return [
        "etcd",
        "--data-dir", str(folder / "etcd"),
        "--listen-client-urls", client,
        "--advertise-client-urls", client,
        "--listen-peer-urls", peer,
        "--initial-advertise-peer-urls", peer,
        "--initial-cluster", f"default={peer}",
        "--unsafe-no-fsync" if _knows_no_fsync() else "--logger=zap",
    ]  # fmt: skip


def _knows_no_fsync() -> bool:
    """etcd 3.5 and newer."""
    printed = subprocess.run(["etcd", "--help"], capture_output=True, text=True)
    return "unsafe-no-fsync" in printed.stdout + printed.stderr


def api_server(folder: Path, *, etcd_port: int, address: str, port: int, advertised: bool = True) -> list[str]:
    """The command. Makes its keys and a token for `kubeconfig` in `folder`.

    `advertised`: whether pods reach it as the service `kubernetes`. A loopback address cannot be that service's endpoint.
    """
    key, public = folder / "accounts.key", folder / "accounts.pub"
    if not key.exists():
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
        subprocess.run(
            ["openssl", "rsa", "-in", str(key), "-pubout", "-out", str(public)], check=True, capture_output=True
        )
    tokens = folder / "tokens.csv"
    if not tokens.exists():
        _write(tokens, f'{secrets.token_hex(16)},admin,1,"{_ADMINISTRATOR}"\n')
    return [
        str(BIN / "kube-apiserver"),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--secure-port={port}",
        f"--bind-address={address}",
        f"--advertise-address={address}" if advertised else "--endpoint-reconciler-type=none",
        f"--cert-dir={folder / 'certificates'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={public}",
        f"--service-account-signing-key-file={key}",
        f"--token-auth-file={tokens}",
        "--authorization-mode=Node,RBAC",
        f"--service-cluster-ip-range={SERVICES}",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged=true",
    ]


def write_kubeconfig(path: Path, folder: Path, server: str) -> None:
    token = (folder / "tokens.csv").read_text().partition(",")[0]
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": server, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "admin"}}],
        "current-context": "here",
    }
    _write(path, json.dumps(config))


def _write(path: Path, text: str) -> None:
    """For this user's eyes only."""
    path.touch(mode=0o600)
    path.write_text(text)


def start() -> None:
    services.start("etcd", etcd(STATE, ETCD_PORT))
    server = api_server(STATE, etcd_port=ETCD_PORT, address=HOST, port=API_PORT)
    services.start("kube-apiserver", server)
    write_kubeconfig(KUBECONFIG, STATE, f"https://{HOST}:{API_PORT}")
    services.until(90, "the API server is not ready", ready)
    services.start(
        "kube-controller-manager",
        [
            str(BIN / "kube-controller-manager"),
            f"--kubeconfig={KUBECONFIG}",
            f"--service-account-private-key-file={STATE / 'accounts.key'}",
            f"--root-ca-file={STATE / 'certificates/apiserver.crt'}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--secure-port=0",
            # A node that is gone is noticed, and its pods replaced, within a test's patience.
            "--node-monitor-grace-period=20s",
        ],
    )
    scheduler = [str(BIN / "kube-scheduler"), f"--kubeconfig={KUBECONFIG}", "--leader-elect=false", "--secure-port=0"]
    services.start("kube-scheduler", scheduler)
    names = STATE / "Corefile"
    names.write_text(
        f".:53 {{\n    bind {HOST}\n    errors\n    kubernetes cluster.local {{\n        kubeconfig {KUBECONFIG} here\n    }}\n}}\n"
    )
    services.start("coredns", [str(BIN / "coredns"), "-conf", str(names)])


def ready() -> bool:
    return answers(["get", "--raw", "/readyz"])


def answers(arguments: Sequence[str]) -> bool:
    """Whether this command of kubectl succeeds."""
    return kubectl(arguments, check=False).returncode == 0


def kubectl(
    arguments: Sequence[str], *, check: bool = True, timeout: float = 60.0, stdin: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Raises RuntimeError with what kubectl said."""
    result = subprocess.run(
        [str(BIN / "kubectl"), *arguments],
        env={**os.environ, "KUBECONFIG": str(KUBECONFIG)},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if check and result.returncode != 0:
        raise RuntimeError(f"kubectl {' '.join(arguments)}: {result.stderr.strip()}")
    return result

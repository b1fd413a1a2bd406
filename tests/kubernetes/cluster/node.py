"""A node: containerd, the kubelet and kube-proxy in a network namespace of its own, with routes to the pods of the others."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from ipaddress import ip_network
from pathlib import Path

from tests.kubernetes.cluster import services
from tests.kubernetes.cluster.control_plane import answers
from tests.kubernetes.cluster.places import BIN, BRIDGE, HOST, KUBECONFIG, PODS, Node

PARTS = ("kube-proxy", "kubelet", "containerd")
"""In the order in which they are stopped."""


def bridge() -> None:
    """What stands for the network between the nodes and this machine."""
    if not _succeeds(["ip", "link", "show", BRIDGE]):
        _refuse_taken_addresses()
        _run(["ip", "link", "add", BRIDGE, "type", "bridge"])
        _run(["ip", "address", "add", f"{HOST}/24", "dev", BRIDGE])
        _run(["ip", "link", "set", BRIDGE, "up"])


def _refuse_taken_addresses() -> None:
    """A VPN or another cluster of this machine keeps its routes. Raises RuntimeError."""
    for addresses in (f"{HOST}/24", PODS):
        prefix = str(ip_network(addresses, strict=False))
        routes = subprocess.run(["ip", "route", "show", "root", prefix], capture_output=True, text=True).stdout
        if routes.strip():
            raise RuntimeError(
                f"the cluster needs {prefix}, and this machine uses it: {routes.splitlines()[0].strip()}"
            )


def cable(node: Node, others: Iterable[Node]) -> None:
    """Make the node's network namespace and connect it."""
    if _succeeds(["ip", "netns", "exec", node.namespace, "true"]):
        return
    inside = ["ip", "-n", node.namespace]
    _run(["ip", "netns", "add", node.namespace])
    _run(["ip", "link", "add", node.link, "type", "veth", "peer", "name", "eth0", "netns", node.namespace])
    _run(["ip", "link", "set", node.link, "master", BRIDGE, "up"])
    _run([*inside, "address", "add", f"{node.address}/24", "dev", "eth0"])
    _run([*inside, "link", "set", "eth0", "up"])
    _run([*inside, "link", "set", "lo", "up"])
    _run([*inside, "route", "add", "default", "via", HOST])
    for other in others:
        _run([*inside, "route", "add", other.pods, "via", other.address])
    _run(["ip", "route", "replace", node.pods, "via", node.address])
    _run(["ip", "netns", "exec", node.namespace, "sysctl", "-q", "-w", "net.ipv4.ip_forward=1"])


def start(node: Node) -> None:
    """Its kubelet registers it; see `ready`."""
    for folder in ("network", "kubelet", "pods"):
        (node.folder / folder).mkdir(parents=True, exist_ok=True)
    _write_containerd(node)
    services.start(
        f"containerd-{node.name}",
        ["containerd", "-c", node.folder / "containerd.toml"],
        namespace=node.namespace,
    )
    services.until(20, f"containerd of {node.name} does not answer", lambda: _succeeds([*ctr(node), "version"]))
    (node.folder / "kubelet.json").write_text(json.dumps(_kubelet(node)))
    services.start(
        f"kubelet-{node.name}",
        [
            BIN / "kubelet",
            f"--config={node.folder / 'kubelet.json'}",
            f"--kubeconfig={KUBECONFIG}",
            f"--root-dir={node.folder / 'kubelet'}",
            f"--hostname-override={node.name}",
            f"--node-ip={node.address}",
        ],
        namespace=node.namespace,
    )
    services.start(
        f"kube-proxy-{node.name}",
        [
            BIN / "kube-proxy",
            f"--kubeconfig={KUBECONFIG}",
            f"--hostname-override={node.name}",
            f"--cluster-cidr={PODS}",
            "--proxy-mode=iptables",
            # The kernel's limits for connections belong to the machine.
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ],
        namespace=node.namespace,
    )


def ready(node: Node) -> bool:
    return answers(["wait", "--for=condition=Ready", f"node/{node.name}", "--timeout=1s"])


def stop(node: Node) -> None:
    for part in PARTS:
        services.stop(f"{part}-{node.name}")


def remove(node: Node) -> None:
    """After `stop`: containers that are left, mounts, the network."""
    for pid in _processes(node):
        _succeeds(["kill", "-9", pid])
    places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in sorted((place for place in places if place.startswith(f"{node.folder}/")), reverse=True):
        _succeeds(["umount", "-l", place])
    _succeeds(["ip", "netns", "delete", node.namespace])
    _succeeds(["ip", "link", "delete", node.link])
    shutil.rmtree(node.folder, ignore_errors=True)


def _processes(node: Node) -> list[str]:
    """Those of its containers: each has one of containerd's shims above it."""
    found = subprocess.run(["pgrep", "-f", f"containerd-shim.*{node.socket}"], capture_output=True, text=True)
    shims = found.stdout.split()
    children = [subprocess.run(["pgrep", "-P", shim], capture_output=True, text=True).stdout.split() for shim in shims]
    return [*shims, *(child for each in children for child in each)]


def ctr(node: Node) -> list[str]:
    return ["ctr", "-a", str(node.socket), "-n", "k8s.io"]


def load(node: Node, archive: str) -> None:
    """Give the node an image out of a Docker archive."""
    _run([*ctr(node), "images", "import", archive])


def _write_containerd(node: Node) -> None:
    network = node.folder / "network"
    subnet = {"type": "host-local", "dataDir": str(network / "addresses"), "ranges": [[{"subnet": node.pods}]]}
    # Point to point: all that leaves a pod is routed, so that addresses of services also work between pods of one node.
    plugin = {"type": "ptp", "ipMasq": True, "ipam": {**subnet, "routes": [{"dst": "0.0.0.0/0"}]}}
    plugins = {"cniVersion": "0.4.0", "name": f"pods-{node.name}", "plugins": [plugin]}
    (network / "pods.conflist").write_text(json.dumps(plugins))
    (node.folder / "containerd.toml").write_text(
        f"""\
version = 2
root = "{node.folder}/containerd"
state = "{node.folder}/run"
[grpc]
  address = "{node.socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{network}"
"""
    )


def _kubelet(node: Node) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        # One machine's control groups are shared by several kubelets: limits of containers hold, classes of service do not.
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "clusterDNS": [HOST],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "containerRuntimeEndpoint": f"unix://{node.socket}",
        "volumePluginDir": str(node.folder / "volume-plugins"),
        "podLogsDir": str(node.folder / "pods"),
        "localStorageCapacityIsolation": False,
        "configMapAndSecretChangeDetectionStrategy": "Watch",
        "syncFrequency": "5s",
        "nodeStatusUpdateFrequency": "4s",
    }


def _run(command: Sequence[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()}")


def _succeeds(command: Sequence[str]) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0

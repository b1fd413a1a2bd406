"""`python -m tests.kubernetes.cluster`: build | base | up [NODES] | load ARCHIVE... | status | down."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.kubernetes.cluster import control_plane, images, node, programs, services
from tests.kubernetes.cluster.places import BIN, BRIDGE, KUBECONFIG, LOGS, STATE, Node

_CONTROL = ("coredns", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd")


def build() -> None:
    programs.packages()
    programs.build((*programs.CONTROL, *programs.NODES))
    programs.build_dns()
    programs.build_pause()


def base() -> None:
    programs.packages()
    images.make_base()


def up(count: str = "2") -> None:
    """Ready for pods when it returns."""
    build()
    if STATE.exists():
        down()
    shutil.rmtree(LOGS, ignore_errors=True)
    STATE.mkdir(parents=True)
    every = [Node(number) for number in range(1, int(count) + 1)]
    node.bridge()
    control_plane.start()
    archive = STATE / "pause.tar"
    images.write_pause(archive)
    for each in every:
        node.cable(each, [other for other in every if other != each])
        node.start(each)
        node.load(each, str(archive))
    for each in every:
        services.until(90, f"{each.name} is not ready", lambda each=each: node.ready(each))  # type: ignore[misc]
    account = ["get", "serviceaccount", "default"]
    services.until(60, "the default service account is missing", lambda: control_plane.answers(account))
    print(f"up: export KUBECONFIG={KUBECONFIG} PATH={BIN}:$PATH")


def load(*archives: str) -> None:
    """Give every node these images."""
    with ThreadPoolExecutor() as pool:
        for loaded in [pool.submit(node.load, each, archive) for each in nodes() for archive in archives]:
            loaded.result()


def nodes() -> list[Node]:
    return [Node(int(path.name.removeprefix("node"))) for path in sorted(STATE.glob("node*")) if path.is_dir()]


def status() -> None:
    for name in services.names():
        print(f"{name}: {'runs' if services.runs(name) else 'has ended'}")
    print(control_plane.kubectl(["get", "nodes,pods", "-A", "-o", "wide"], check=False).stdout)


def down() -> None:
    """End everything and remove it, except what was compiled."""
    if services.runs("kube-apiserver"):
        gone = ["delete", "pods", "--all", "--all-namespaces", "--grace-period=1", "--timeout=30s"]
        control_plane.kubectl(gone, check=False)
    every = nodes()
    for each in every:
        node.stop(each)
    for name in _CONTROL:
        services.stop(name)
    for each in every:
        node.remove(each)
    subprocess.run(["ip", "link", "delete", BRIDGE], capture_output=True)
    shutil.rmtree(STATE, ignore_errors=True)


COMMANDS: dict[str, Callable[..., None]] = {
    "build": build,
    "base": base,
    "up": up,
    "load": load,
    "status": status,
    "down": down,
}


def main(arguments: Sequence[str]) -> int:
    command = COMMANDS.get(arguments[0]) if arguments else None
    if command is None:
        print(__doc__, file=sys.stderr)
        return 2
    if reason := programs.missing():
        print(reason, file=sys.stderr)
        return 1
    command(*arguments[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

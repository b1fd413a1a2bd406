"""Gets the programs: etcd, containerd and their kind as Debian packages, Kubernetes and CoreDNS from Go modules, compiled once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Collection, Sequence
from pathlib import Path

from tests.kubernetes.cluster.places import BIN, ROOT

KUBERNETES = "1.34.1"
COREDNS = "1.12.4"

CONTROL = ("kube-apiserver", "kubectl")
"""Enough to have objects validated."""
NODES = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")

_PACKAGES = {
    "etcd": "etcd-server",
    "containerd": "containerd",
    "runc": "runc",
    "ip": "iproute2",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "nsenter": "util-linux",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
}
"""By a program of theirs."""
_SERVICES = {"etcd", "containerd"}
"""What Debian starts with a package; the cluster starts its own."""

_PAUSE = """\
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void end(int number) { exit(0); }
static void reap(int number) { while (waitpid(-1, NULL, WNOHANG) > 0) {} }
int main(void) {
    signal(SIGINT, end); signal(SIGTERM, end); signal(SIGCHLD, reap);
    for (;;) pause();
}
"""


def missing() -> str | None:
    """What a person has to do before a cluster can run here; None where it can."""
    if os.geteuid() != 0:
        return "a cluster needs root: network namespaces, mounts and containers are made"
    if shutil.which("go") is None and not all((BIN / name).exists() for name in (*CONTROL, *NODES, "coredns")):
        return "a cluster is compiled with Go 1.24 or newer, which is not on PATH"
    if _absent() and shutil.which("apt-get") is None:
        return f"a cluster needs {', '.join(_absent())}, and there is no apt-get to install them"
    return None


def packages(programs: Collection[str] = _PACKAGES) -> None:
    """Install the Debian packages of missing programs. Removes none, and leaves no service running that was not there before."""
    absent = _absent(programs)
    if not absent:
        return
    services = [name for name in _SERVICES.intersection(programs) if shutil.which(name) is None]
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=True, env=quiet)
    print(f"installing {', '.join(absent)} ...", flush=True)
    subprocess.run(
        ["apt-get", "install", "-y", "-qq", "--no-remove", "--no-install-recommends", *absent],
        check=True,
        env=quiet,
        stdout=subprocess.DEVNULL,
    )
    if shutil.which("systemctl") is not None:
        for service in services:
            subprocess.run(["systemctl", "disable", "--now", service], capture_output=True)


def _absent(programs: Collection[str] = _PACKAGES) -> list[str]:
    """Packages."""
    return [_PACKAGES[program] for program in programs if shutil.which(program) is None]


def build(names: Sequence[str]) -> None:
    """Compile those of Kubernetes's programs that are not there yet."""
    absent = [name for name in names if not (BIN / name).exists()]
    if not absent:
        return
    BIN.mkdir(parents=True, exist_ok=True)
    module = ROOT / "source/kubernetes"
    module.mkdir(parents=True, exist_ok=True)
    (module / "go.mod").write_text(_go_mod())
    imports = "".join(f'\t_ "k8s.io/kubernetes/cmd/{name}"\n' for name in (*CONTROL, *NODES))
    (module / "programs.go").write_text(f"//go:build programs\n\npackage programs\n\nimport (\n{imports})\n")
    _go(["mod", "tidy"], module)
    major, minor, _ = KUBERNETES.split(".")
    version = {"gitVersion": f"v{KUBERNETES}", "gitMajor": major, "gitMinor": minor}
    stamps = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in version.items())
    for name in absent:
        _compile(f"k8s.io/kubernetes/cmd/{name}", name, module, flags=f"-s -w {stamps}")


def build_dns() -> None:
    if (BIN / "coredns").exists():
        return
    module = ROOT / "source/coredns"
    module.mkdir(parents=True, exist_ok=True)
    if not (module / "go.mod").exists():
        _go(["mod", "init", "names"], module)
    _go(["get", f"github.com/coredns/coredns@v{COREDNS}"], module)
    _compile("github.com/coredns/coredns", "coredns", module, flags="-s -w")


def build_pause() -> None:
    """The process that holds a pod's namespaces open."""
    if not (BIN / "pause").exists():
        command = ["gcc", "-x", "c", "-static", "-O2", "-o", str(BIN / "pause"), "-"]
        subprocess.run(command, check=True, input=_PAUSE.encode())


def _go_mod() -> str:
    """For a module that only compiles Kubernetes.

    Its own go.mod replaces the modules of its repository by folders that a module archive does not contain. They are also published, with
    0 for the major version.
    """
    downloaded = _go(["mod", "download", "-json", f"k8s.io/kubernetes@v{KUBERNETES}"], ROOT)
    described = json.loads(_go(["mod", "edit", "-json", json.loads(downloaded)["GoMod"]], ROOT))
    published = f"v0{KUBERNETES[1:]}"
    staged = [each["Old"]["Path"] for each in described["Replace"] if each["New"]["Path"].startswith("./staging/")]
    lines = [f"\t{path} => {path} {published}" for path in staged]
    return "\n".join(
        [
            "module programs",
            f"go {described['Go']}",
            f"godebug default=go{'.'.join(described['Go'].split('.')[:2])}",
            f"require k8s.io/kubernetes v{KUBERNETES}",
            "replace (",
            *lines,
            ")",
            "",
        ]
    )


def _compile(package: str, name: str, module: Path, *, flags: str) -> None:
    """Appears under its name when it is whole."""
    print(f"compiling {name} ...", flush=True)
    whole, partial = BIN / name, BIN / f".{name}.partial"
    _go(["build", "-ldflags", flags, "-o", str(partial), package], module)
    partial.rename(whole)


def _go(arguments: Sequence[str], folder: Path) -> str:
    result = subprocess.run(
        ["go", *arguments],
        cwd=folder,
        env={**os.environ, "GOFLAGS": "-mod=mod"},
        capture_output=True,
        text=True,
    )
    if result.returncode != 0:
        raise RuntimeError(f"go {' '.join(arguments)}: {result.stderr[-2000:]}")
    return result.stdout

"""One namespace of the running cluster: what is in it, the demo's load, and processes as the machine sees them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.kubernetes.cluster import node
from tests.kubernetes.cluster.__main__ import nodes
from tests.kubernetes.cluster.control_plane import kubectl

_OVERLAY = Path(__file__).parents[3] / "deploy/kubernetes/overlays/development"
_CONFIG = "dstream-config"
_HOME = "node1"
"""Where emulators and load run, which keep what they know in memory."""
_POLL = 0.5


@dataclass(frozen=True, slots=True)
class Pod:
    name: str
    node: str
    container: str
    """Its first container's id; empty before there is one."""
    ready: bool
    leaving: bool
    restarts: int
    images: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`output`: what the demo printed. Nothing was lost, doubled, reordered or wrong if `good`."""

    good: bool
    output: str


class World:
    """`namespace` has the development overlay, or what a test has made of it."""

    def __init__(self, namespace: str = "dstream", overlay: Path = _OVERLAY) -> None:
        self.namespace = namespace
        self._overlay = overlay

    def kubectl(self, *arguments: str, check: bool = True, stdin: str | None = None, timeout: float = 60.0) -> str:
        """What it printed. Raises RuntimeError unless it succeeds, or `check` is false."""
        words = ["-n", self.namespace, *arguments]
        return kubectl(words, check=check, stdin=stdin, timeout=timeout).stdout

    @cached_property
    def overlay(self) -> list[dict[str, Any]]:
        """The objects of the overlay."""
        rendered = kubectl(["kustomize", str(self._overlay)]).stdout
        printed = self.kubectl("create", "--dry-run=client", "-o", "json", "-f", "-", stdin=rendered)
        return [_at_home(each) if _keeps_state(each) else each for each in _documents(printed)]

    def set_up(self) -> None:
        """Everything of the overlay but the load, in a namespace without anything of an earlier run."""
        kubectl(["delete", "namespace", self.namespace, "--ignore-not-found"], timeout=120)
        objects = [each for each in self.overlay if each["kind"] != "Job"]
        first = [each for each in objects if each["kind"] == "Namespace"]
        self.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": first}))
        self.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def apply(self, documents: str) -> None:
        self.kubectl("apply", "-f", "-", stdin=documents)

    def pods(self, component: str) -> list[Pod]:
        """By the label app.kubernetes.io/component: ingester, router, emulator."""
        printed = self.kubectl("get", "pods", "-l", f"app.kubernetes.io/component={component}", "-o", "json")
        return [_pod(item) for item in json.loads(printed)["items"]]

    def until(self, seconds: float, what: str, done: Callable[[], bool]) -> None:
        """Waits. An API server that is away for a moment does not end it."""
        deadline = time.monotonic() + seconds
        while True:
            with suppress(RuntimeError, subprocess.TimeoutExpired):
                if done():
                    return
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not after {seconds:.0f} s\n{self.described()}")
            time.sleep(_POLL)

    def settled(self, component: str, replicas: int, seconds: float = 400) -> list[Pod]:
        """Once just these many pods are there and ready."""

        def done() -> bool:
            pods = self.pods(component)
            return len(pods) == replicas and all(pod.ready and not pod.leaving for pod in pods)

        self.until(seconds, f"{replicas} ready pods of {component}", done)
        return self.pods(component)

    def described(self) -> str:
        """For the report of a failure."""
        pods = self.kubectl("get", "pods", "-o", "wide", check=False)
        events = self.kubectl("get", "events", "--sort-by=.lastTimestamp", check=False).splitlines()[-25:]
        return "\n".join([pods, *events])

    def scale(self, component: str, replicas: int) -> None:
        self.kubectl("scale", f"deployment/dstream-{component}", f"--replicas={replicas}")

    def rolled_out(self, component: str) -> None:
        self.kubectl("rollout", "status", f"deployment/dstream-{component}", "--timeout=240s", timeout=250)

    def configuration(self) -> str:
        """dstream.hcl, as the cluster has it."""
        return str(json.loads(self.kubectl("get", "configmap", _CONFIG, "-o", "json"))["data"]["dstream.hcl"])

    def configure(self, text: str) -> None:
        """Change dstream.hcl. Pods see it after a moment."""
        patch = json.dumps({"data": {"dstream.hcl": text}})
        self.kubectl("patch", "configmap", _CONFIG, "--type=merge", "-p", patch)

    def delete(self, pod: Pod, *, grace: int | None = None) -> None:
        """Ask for its end, and do not wait for it."""
        options = [] if grace is None else [f"--grace-period={grace}"]
        self.kubectl("delete", "pod", pod.name, "--wait=false", *options)

    def kill(self, pod: Pod, number: signal.Signals = signal.SIGKILL) -> None:
        """Signal every process of its container at once, as the kernel does when memory is short."""
        for pid in self.processes(pod):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def processes(self, pod: Pod) -> list[int]:
        """As the machine numbers them."""
        home = next(each for each in nodes() if each.name == pod.node)
        listed = subprocess.run([*node.ctr(home), "tasks", "ps", pod.container], capture_output=True, text=True)
        return [int(line.split()[0]) for line in listed.stdout.splitlines()[1:]]

    def logs(self, pod: Pod, *, previous: bool = False) -> str:
        return self.kubectl("logs", pod.name, "--all-containers", *(["--previous"] if previous else []), check=False)

    def verdict(self, during: Callable[[], None], *, seconds: int, changes: int, name: str) -> Verdict:
        """Run the demo's load in the cluster and `during` meanwhile. Ends once the load's verdict is there."""
        job = f"load-{name}"
        self.kubectl("delete", "job", job, "--ignore-not-found")
        self.apply(json.dumps(self._load(job, {"SECONDS": str(seconds), "CHANGES": str(changes)})))
        self.until(120, "the load has begun", lambda: "committed" in self._output(job))
        during()
        deadline = time.monotonic() + seconds + 300
        while (status := self._ended(job)) is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"no verdict of {job}\n{self.described()}\n{self._output(job)}")
            time.sleep(_POLL)
        output = self._output(job)
        self.kubectl("delete", "job", job)
        return Verdict(status, output)

    def _load(self, name: str, variables: Mapping[str, str]) -> Mapping[str, Any]:
        """The overlay's job of the demo, under another name and with these variables."""
        job = next(each for each in self.overlay if each["kind"] == "Job")
        [container] = job["spec"]["template"]["spec"]["containers"]
        kept = [each for each in container["env"] if each["name"] not in variables]
        container = {**container, "env": [*kept, *({"name": key, "value": value} for key, value in variables.items())]}
        template = {**job["spec"]["template"], "spec": {**job["spec"]["template"]["spec"], "containers": [container]}}
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": job["metadata"]["labels"]},
            "spec": {**job["spec"], "template": template},
        }

    def _ended(self, job: str) -> bool | None:
        """Whether it succeeded; None while it runs, or nobody can tell."""
        with suppress(RuntimeError, subprocess.TimeoutExpired):
            status = json.loads(self.kubectl("get", "job", job, "-o", "json"))["status"]
            if status.get("succeeded"):
                return True
            if status.get("failed"):
                return False
        return None

    def _output(self, job: str) -> str:
        return self.kubectl("logs", f"job/{job}", "--tail=200", check=False)


def _keeps_state(document: Mapping[str, Any]) -> bool:
    component = document["metadata"].get("labels", {}).get("app.kubernetes.io/component")
    return component in ("emulator", "demo") and document["kind"] in ("Deployment", "Job")


def _at_home(document: dict[str, Any]) -> dict[str, Any]:
    document["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": _HOME}
    return document


def _documents(text: str) -> Iterator[dict[str, Any]]:
    """kubectl prints one JSON document after the other."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        found, at = decoder.raw_decode(text, at)
        yield found
        while at < len(text) and text[at].isspace():
            at += 1


def _pod(item: Mapping[str, Any]) -> Pod:
    status = item["status"]
    containers = status.get("containerStatuses") or [{}]
    return Pod(
        name=item["metadata"]["name"],
        node=item["spec"].get("nodeName", ""),
        container=containers[0].get("containerID", "").removeprefix("containerd://"),
        ready=any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", [])),
        leaving="deletionTimestamp" in item["metadata"],
        restarts=sum(each.get("restartCount", 0) for each in containers),
        images=tuple(each["image"] for each in item["spec"]["containers"]),
    )

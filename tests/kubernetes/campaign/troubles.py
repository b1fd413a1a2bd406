"""What happens to a cluster: each function does one thing to a world under load, and returns when it is over."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Sequence

from tests.kubernetes.campaign.world import Pod, World
from tests.kubernetes.cluster import services
from tests.kubernetes.cluster.control_plane import kubectl, ready

STAGES = ("ingester", "router")
DRAINED = "node2"
"""What the emulators and the load do not run on."""


def random_kills(world: World, count: int, chance: random.Random, *, every: float = 6.0) -> list[str]:
    """Kill pods of both stages, one after the other: politely, with a second's notice, or as the kernel does. Returns what was done."""
    done = []
    for _ in range(count):
        component = chance.choice(STAGES)
        pods = [pod for pod in world.pods(component) if not pod.leaving]
        if pods:
            done.append(_kill(world, chance.choice(pods), chance))
        time.sleep(chance.uniform(0.3, 1.7) * every)
    for component in STAGES:
        world.settled(component, 2, 600)
    return done


def _kill(world: World, pod: Pod, chance: random.Random) -> str:
    way = chance.choice(("SIGTERM", "a second", "SIGKILL"))
    if way == "SIGKILL":
        world.kill(pod)
    else:
        world.delete(pod, grace=1 if way == "a second" else None)
    return f"{way}: {pod.name}"


def drained_node(world: World) -> None:
    """All its pods move to the other node; then it takes pods again."""
    kubectl(["drain", DRAINED, "--ignore-daemonsets", "--delete-emptydir-data", "--force"], timeout=240)
    for component in STAGES:
        assert all(pod.node != DRAINED for pod in world.settled(component, 2))
    kubectl(["uncordon", DRAINED])


def scaled(world: World, component: str, sizes: Sequence[int]) -> None:
    for size in sizes:
        world.scale(component, size)
        world.settled(component, size)
        time.sleep(5)


def restarted(world: World) -> None:
    """All pods of both stages, one after the other."""
    for component in STAGES:
        world.kubectl("rollout", "restart", f"deployment/dstream-{component}")
    for component in STAGES:
        world.rolled_out(component)


def without_api_server(world: World, seconds: float) -> None:
    services.stop("kube-apiserver")
    time.sleep(seconds)
    services.again("kube-apiserver")
    services.until(90, "the API server is not ready", ready)
    for component in STAGES:
        world.settled(component, 2)


def frozen(world: World, pod: Pod) -> None:
    """Its processes stand still for good: nothing but SIGKILL ends them."""
    world.kill(pod, signal.SIGSTOP)


def mute(world: World, pod: Pod, seconds: float) -> None:
    """Its processes stand still, and its connections stay open."""
    world.kill(pod, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        world.kill(pod, signal.SIGCONT)


def upgraded(world: World, tag: str, *, mixed: float) -> None:
    """To the images `tag`, with both versions at work for `mixed` seconds."""
    for component in STAGES:
        image = f"{component}=localhost/dstream/{component}:{tag}"
        world.kubectl("set", "image", f"deployment/dstream-{component}", image)
        _begun(world, component, tag)
        world.kubectl("rollout", "pause", f"deployment/dstream-{component}")
    time.sleep(mixed)
    for component in STAGES:
        world.kubectl("rollout", "resume", f"deployment/dstream-{component}")
        world.rolled_out(component)


def _begun(world: World, component: str, tag: str) -> None:
    """Once one pod is the new one."""

    def done() -> bool:
        pods = [pod for pod in world.pods(component) if pod.ready and not pod.leaving]
        return any(pod.images[0].endswith(f":{tag}") for pod in pods)

    world.until(180, f"a new {component} is ready", done)

"""Machines out of network namespaces: each has an address of its own on one bridge, a host name and a directory for temporary files of its own.

Nothing on one of them reaches another by way of loopback, and a link can be cut. Needs root and iproute2 (`missing` says so). Names are a
run's own, so runs do not meet; what a killed run has left is removed when the next one begins. Shares its processes and files with the machine
that it runs on, but for the directories that `Machine.command` hides.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

_PREFIX = "dstream-net-"
_OWNER, _TEMPORARY, _NOTHING = "owner", "tmp", "nothing"
_RANGE = "198.18"
"""For tests of networks (RFC 2544): no machine that is met elsewhere has such an address."""
_NOBODY = "02:00:00:00:00:01"
"""No machine has this address, so what is sent there gets lost without a word."""
_PROGRAMS = ("ip", "nsenter", "unshare", "setpriv", "mount", "hostname")
_START = 'hostname "$0"; for hidden in $1; do mount --bind "$2" "$hidden"; done; shift 2; exec "$@"'


def missing() -> str | None:
    """Why there can be no machines here."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are Linux's"
    if os.getuid() != 0:
        return "only root can make network namespaces"
    absent = [program for program in _PROGRAMS if shutil.which(program) is None]
    if absent:
        return f"network namespaces need {', '.join(absent)} (Debian: iproute2, util-linux, hostname)"
    probe = f"{_PREFIX}{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    _ip("netns", "delete", probe)
    return None


class Machine:
    """Made by `Network.machine`. `folder`: for what it writes; `temporary`: its directory for temporary files, with a short path."""

    def __init__(self, network: Network, name: str, number: int) -> None:
        self.name = name
        self.address = f"{network.subnet}.{number + 1}"
        self.folder = network.folder / name
        self.temporary = self.folder / _TEMPORARY
        self.namespace = f"{network.folder.name}-{name}"
        self._port = f"{network.bridge}-{number}"
        self.temporary.mkdir(parents=True)
        (self.folder / _NOTHING).mkdir()
        _ip("netns", "add", self.namespace)
        _ip("link", "add", self._port, "type", "veth", "peer", "name", "eth0", "netns", self.namespace)
        _ip("link", "set", self._port, "master", network.bridge, "up")
        _ip("-n", self.namespace, "address", "add", f"{self.address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", self.namespace, "link", "set", device, "up")

    @property
    def variables(self) -> dict[str, str]:
        """Of the environment of what runs here."""
        return {"TMPDIR": str(self.temporary), "SPARK_LOCAL_IP": self.address}

    def command(self, command: Sequence[str], *, hidden: Sequence[Path] = ()) -> list[str]:
        """`command` on this machine, where nobody sees what is in the `hidden` directories; it dies with the thread that starts it."""
        return [
            *("setpriv", "--pdeathsig", "KILL", "nsenter", f"--net=/run/netns/{self.namespace}"),
            *("unshare", "--mount", "--uts", "--propagation", "private", "sh", "-c", _START, self.name),
            *(" ".join(map(str, hidden)), str(self.folder / _NOTHING), *command),
        ]

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """As long as the block lasts no packet reaches this machine or leaves it."""
        _ip("link", "set", self._port, "down")
        try:
            yield
        finally:
            _ip("link", "set", self._port, "up")

    @contextmanager
    def cut_off_from(self, *others: Machine) -> Iterator[None]:
        """As long as the block lasts no packet goes between this machine and these. All the others are reached."""
        ways = [way for other in others for way in ((self, other), (other, self))]
        with ExitStack() as opened:
            for here, there in ways:
                place = (there.address, "dev", "eth0")
                _ip("-n", here.namespace, "neighbour", "replace", *place, "lladdr", _NOBODY, "nud", "permanent")
                opened.callback(_ip, "-n", here.namespace, "neighbour", "delete", *place)
            yield


class Network:
    """A bridge, which has the first address of the subnet, and machines at it. `with` makes and removes everything."""

    def __enter__(self) -> Self:
        with ExitStack() as opened, _alone():
            _sweep()
            self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
            self.folder.chmod(0o755)
            opened.callback(_remove, self.folder)
            owner = opened.enter_context((self.folder / _OWNER).open("wb"))
            fcntl.flock(owner, fcntl.LOCK_EX)
            self.bridge = _bridge(self.folder)
            self.subnet = _free_subnet()
            self.address = f"{self.subnet}.1"
            self._machines = 0
            _ip("link", "add", self.bridge, "type", "bridge")
            _ip("address", "add", f"{self.address}/24", "dev", self.bridge)
            _ip("link", "set", self.bridge, "up")
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *details: object) -> None:
        self._opened.close()

    def machine(self, name: str) -> Machine:
        """A new one, reachable at once."""
        self._machines += 1
        return Machine(self, name, self._machines)


def _ip(*arguments: str) -> str:
    """Raises RuntimeError with what `ip` says."""
    ran = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {ran.stderr.strip()}")
    return ran.stdout


def _bridge(folder: Path) -> str:
    """A device's name has at most 15 characters, and those of the machines' ends begin with it."""
    return f"ds{folder.name.removeprefix(_PREFIX)}"


def _free_subnet() -> str:
    taken = {
        each["local"].rpartition(".")[0]
        for device in json.loads(_ip("-json", "address"))
        for each in device["addr_info"]
    }
    return next(subnet for number in range(256) if (subnet := f"{_RANGE}.{number}") not in taken)


@contextmanager
def _alone() -> Iterator[None]:
    """One run at a time makes its network."""
    with Path(tempfile.gettempdir(), f"{_PREFIX}lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sweep() -> None:
    """Remove what runs have left that nobody owns any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/"):
        with suppress(OSError), (folder / _OWNER).open("rb") as owner:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)


def _remove(folder: Path) -> None:
    """The machines of a network, what still runs on them, its bridge and its folder."""
    namespaces = [line.split()[0] for line in _ip("netns", "list").splitlines()]
    for namespace in (each for each in namespaces if each.startswith(f"{folder.name}-")):
        for pid in map(int, _ip("netns", "pids", namespace).split()):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        _ip("netns", "delete", namespace)
    bridge = _bridge(folder)
    with suppress(RuntimeError):  # it was not made
        ports = [device["ifname"] for device in json.loads(_ip("-json", "link", "show", "master", bridge))]
        for device in (*ports, bridge):
            with suppress(RuntimeError):  # it has just gone with its namespace
                _ip("link", "delete", device)
    shutil.rmtree(folder, ignore_errors=True)

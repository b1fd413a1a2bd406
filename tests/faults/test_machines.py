"""The machines that faults of networks are tried on: what reaches what, what is hidden, and that nothing of a run is left."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.worlds.machines.network import Machine, Network, missing
from tests.worlds.world import wait_until

pytestmark = pytest.mark.skipif((_why := missing()) is not None, reason=_why or "")

_CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1.0)"
_LIVE = """\
import subprocess, sys, time
from tests.worlds.machines.network import Network
network = Network().__enter__()
left = subprocess.Popen(network.machine("lone").command(["sleep", "600"]))
print(network.folder, left.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as made:
        yield made


def reached(machine: Machine, listener: socket.socket) -> bool:
    """Whether a connection from there comes about within a second."""
    host, port = listener.getsockname()
    command = machine.command([sys.executable, "-c", _CONNECT, host, str(port)])
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0


def listener_on(machine: Machine) -> socket.socket:
    """The namespace is left again before it is used: a socket stays where it was made."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(f"/run/netns/{machine.namespace}", os.O_RDONLY)
    try:
        _enter(there)
        return socket.create_server((machine.address, 0))
    finally:
        _enter(own)
        os.close(own)
        os.close(there)


def _enter(namespace: int) -> None:
    """What os.setns is from Python 3.12 on."""
    assert ctypes.CDLL(None, use_errno=True).setns(namespace, 0) == 0, os.strerror(ctypes.get_errno())


def test_a_cut_ends_what_it_says_and_nothing_else_and_only_for_its_time(network: Network) -> None:
    one, two, three = (network.machine(name) for name in ("one", "two", "three"))
    with ExitStack() as opened:
        there = opened.enter_context(listener_on(two))
        here = opened.enter_context(socket.create_server((network.address, 0)))
        assert reached(one, there)
        with one.cut_off_from(two):
            assert [reached(one, there), reached(one, here), reached(three, there)] == [False, True, True]
        assert reached(one, there)
        with two.cut_off():
            assert [reached(one, there), reached(two, here), reached(one, here)] == [False, False, True]
        assert reached(one, there)


def test_a_machine_has_a_name_and_temporary_files_of_its_own(network: Network, tmp_path: Path) -> None:
    machine = network.machine("alone")
    (tmp_path / "secret").touch()
    said = subprocess.check_output(machine.command(["sh", "-c", f"hostname; ls {tmp_path}"], hidden=[tmp_path]))
    assert said.split() == [b"alone"]
    assert socket.gethostname() != "alone"


def test_what_a_killed_run_leaves_is_removed_by_the_next() -> None:
    with subprocess.Popen([sys.executable, "-c", _LIVE], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        folder, left = run.stdout.readline().split()
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert Path(folder).name in _namespaces()
    with Network() as network:
        assert Path(folder).name not in _namespaces()
        assert not Path(folder).exists()
        network.machine("other")
        assert network.folder.name in _namespaces()
    assert network.folder.name not in _namespaces()
    assert not network.folder.exists()
    wait_until(lambda: not _runs(int(left)), "what ran there has ended", 60)


def _runs(pid: int) -> bool:
    """It was sent SIGKILL, and may not have come to it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _namespaces() -> str:
    return subprocess.check_output(["ip", "netns", "list"], text=True)

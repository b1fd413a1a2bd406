"""Whose account is at the other end of a connection, from tables as Linux writes them."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from desk.console.peers import Peers, own_account
from desk.console.refusals import NotAllowed

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
OWN, ANNA, MALLORY = os.geteuid(), 4321, 6666
PEER = ("127.0.0.1", 40000)


def row(local: str, remote: str, uid: int, inode: int = 77, state: str = "01") -> str:
    return (
        f"   0: {local} {remote} {state} 00000000:00000000 00:00000000 00000000  {uid}  0 {inode} 1 0 20 4 30 10 -1\n"
    )


class Known(Peers):
    works = True


def peers(tmp_path: Path, *rows: str, six: str = "") -> Peers:
    (tmp_path / "tcp").write_text(HEAD + "".join(rows))
    (tmp_path / "tcp6").write_text(HEAD + six)
    return Known(ANNA, tmp_path)


CONSOLE = "0100007F:1F9A"  # 127.0.0.1:8090
CLIENT = "0100007F:9C40"  # 127.0.0.1:40000


def test_the_console_s_own_account_and_root_are_let_in(tmp_path: Path) -> None:
    assert peers(tmp_path, row(CLIENT, CONSOLE, ANNA)).account(PEER, 8090) == ANNA
    assert peers(tmp_path, row(CLIENT, CONSOLE, 0)).account(PEER, 8090) == 0


def test_another_account_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(NotAllowed, match=r"uid 6666's, another account") as caught:
        peers(tmp_path, row(CLIENT, CONSOLE, MALLORY)).account(PEER, 8090)
    assert "--token-file" in (caught.value.hint or "")


def test_the_console_s_end_of_the_connection_says_nothing_of_the_other(tmp_path: Path) -> None:
    table = row(CONSOLE, CLIENT, ANNA) + row(CLIENT, CONSOLE, MALLORY)
    with pytest.raises(NotAllowed, match="another account"):
        peers(tmp_path, table).account(PEER, 8090)


def test_who_sends_and_closes_at_once_is_not_taken_for_root(tmp_path: Path) -> None:
    with pytest.raises(NotAllowed, match="nobody knows"):
        peers(tmp_path, row(CLIENT, CONSOLE, 0, inode=0, state="04")).account(PEER, 8090)


def test_a_connection_elsewhere_from_the_same_port_is_another_one(tmp_path: Path) -> None:
    table = row(CLIENT, "0100007F:0016", ANNA) + row(CLIENT, CONSOLE, MALLORY)
    with pytest.raises(NotAllowed):
        peers(tmp_path, table).account(PEER, 8090)
    with pytest.raises(NotAllowed):  # where the console's port is not known, anybody else is enough
        peers(tmp_path, table).account(PEER, None)


def test_a_socket_of_ipv6_with_an_address_of_ipv4_is_found(tmp_path: Path) -> None:
    mapped = "0000000000000000FFFF0000"
    six = row(f"{mapped}{CLIENT}", f"{mapped}{CONSOLE}", MALLORY)
    with pytest.raises(NotAllowed, match="another account"):
        peers(tmp_path, six=six).account(PEER, 8090)
    loopback = "00000000000000000000000001000000"
    six = row(f"{loopback}:9C40", f"{loopback}:1F9A", ANNA)
    assert peers(tmp_path, six=six).account(("::1", 40000), 8090) == ANNA


def test_where_there_are_no_tables_nobody_is_known(tmp_path: Path) -> None:
    found = Peers(OWN, tmp_path)
    assert not found.works
    assert found.account(PEER, 8090) is None


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="Linux alone has these tables")
def test_this_machine_knows_its_own_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert own_account().works
            assert own_account().account(client.getsockname(), port) == OWN

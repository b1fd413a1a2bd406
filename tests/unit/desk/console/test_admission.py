"""Calls over gRPC are counted as requests over HTTP are: by person behind a proxy, else by address; wrong tokens by address."""

from __future__ import annotations

import pytest

from desk.console.access import Access, checked
from desk.console.grpc.admission import Admission
from desk.console.guard import Identity
from desk.console.limits import Limit, Limits, Rate, streaming_client_of
from desk.console.refusals import NotAllowed, TooMany, Unauthenticated

PROXY = checked("127.0.0.1", token_file=False, behind_proxy="x-user", trusted_proxies=["10.0.0.0/8"])
PEER = "ipv4:10.0.0.7:51234"


def two_at_once() -> Limits:
    return Limits(
        requests=Limit("requests", Rate(per_second=0.001, burst=2)),
        logins=Limit("failed logins", Rate(per_second=0.001, burst=2)),
    )


def test_people_behind_one_proxy_do_not_use_up_each_other_s_calls() -> None:
    admission = Admission(PROXY, two_at_once(), "local")
    for who in ("ada", "grace"):
        for _ in range(2):
            assert admission.of("m", [("x-user", who)], PEER).who == who
        with pytest.raises(TooMany, match="requests"):
            admission.of("m", [("x-user", who)], PEER)


def test_a_person_has_one_limit_over_grpc_and_http() -> None:
    limits = two_at_once()
    limits.requests.take("proxy ada")  # as the gate of HTTP takes it
    limits.requests.take("proxy ada")
    with pytest.raises(TooMany):
        Admission(PROXY, limits, "local").of("m", [("x-user", "ada")], PEER)


def test_without_a_proxy_an_address_has_one_limit_whatever_its_calls_say() -> None:
    admission = Admission(Access("127.0.0.1", "local"), two_at_once(), "anna")
    for who in ("ada", "grace"):
        assert admission.of("m", [("x-user", who)], PEER).who == "anna"
    with pytest.raises(TooMany):
        admission.of("m", [], PEER)


def test_nobody_else_is_believed_to_be_the_proxy() -> None:
    with pytest.raises(NotAllowed):
        Admission(PROXY, two_at_once(), "local").of("m", [("x-user", "ada")], "ipv4:192.0.2.1:1")


def test_addresses_of_one_ipv6_network_guess_together() -> None:
    admission = Admission(Access("::", "token"), two_at_once(), "local", {"right": "token"}.get)
    for last in (1, 2):
        with pytest.raises(Unauthenticated):
            admission.of("m", [("authorization", "Bearer wrong")], f"ipv6:%5B2001:db8::{last}%5D:1")
    with pytest.raises(TooMany, match="failed logins"):
        admission.of("m", [("authorization", "Bearer wrong")], "ipv6:%5B2001:db8::3%5D:1")
    with pytest.raises(Unauthenticated):
        admission.of("m", [("authorization", "Bearer wrong")], "ipv6:%5B2001:db8:0:1::3%5D:1")
    assert admission.of("m", [("authorization", "Bearer right")], "ipv6:%5B2001:db8::3%5D:1").who == "token"


def test_a_call_without_a_token_is_no_guess() -> None:
    admission = Admission(Access("::", "token"), two_at_once(), "local", {"right": "token"}.get)
    for _ in range(3):
        with pytest.raises(Unauthenticated):
            admission.of("m", [], PEER)
    assert admission.of("m", [("authorization", "Bearer right")], PEER).who == "token"


def test_streams_are_counted_by_person_and_without_a_name_by_login_or_address() -> None:
    def client(*given: str | bool) -> str:
        who, subject, *cookie = given
        return streaming_client_of(
            "10.0.0.7", Identity(str(who), str(subject), "page", cookie=str(cookie[0]) if cookie else None)
        )

    assert client("token", "session 1", "1") != client("token", "session 2", "2")
    assert client("ada", "session 1", "1") == client("ada", "session 2", "2") == client("ada", "token")
    assert client("ada", "token") != client("grace", "token")
    assert client("token", "token") == "10.0.0.7"
    assert client("ada", "proxy ada") != client("grace", "proxy grace")
    assert client("anna", "local") == "account anna"


def test_another_account_of_this_machine_is_not_let_in() -> None:
    def user_at(address: str, port: int) -> str:
        if port == 6666:
            raise NotAllowed("another account")
        return f"whoever has {address}"

    admission = Admission(Access("127.0.0.1", "local"), two_at_once(), "anna", user_at=user_at)
    assert admission.of("m", [], "ipv4:127.0.0.1:40000").who == "whoever has 127.0.0.1"
    assert admission.of("m", [], "ipv6:%5B::1%5D:40000").who == "whoever has ::1"
    with pytest.raises(NotAllowed):
        admission.of("m", [], "ipv4:127.0.0.1:6666")

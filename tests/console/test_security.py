"""Whom a console lets in over HTTP, and what it lets foreign pages do."""

from __future__ import annotations

import http.client
import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from desk.console.access import checked
from desk.console.http.app import described_app
from desk.console.limits import Limit, Limits, Rate
from desk.console.peers import Peers
from tests.console.serving import TOKEN, Running, running

OTHER = "another-token-that-is-long"
PAGE = {"Sec-Fetch-Site": "same-origin"}
PROXY = checked("127.0.0.1", token_file=False, behind_proxy="X-User", trusted_proxies=["127.0.0.0/8"])


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text(TOKEN + "\n")
    with running(token_file=path) as found:
        yield found, path


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def routes() -> list[tuple[str, str]]:
    found = described_app().openapi()["paths"].items()
    return [(method.upper(), path) for path, operations in found for method in operations]


def test_no_route_answers_somebody_who_is_not_logged_in(locked: tuple[Running, Path]) -> None:
    console, _ = locked
    refused = dict[tuple[str, str], int]()
    for method, path in routes():
        refused[method, path] = console.client.request(method, path, json={} if method != "GET" else None).status_code
    open = {each for each, status in refused.items() if status != 401}
    assert open == {("GET", "/api/v1/session"), ("POST", "/api/v1/session")}
    assert refused["POST", "/api/v1/session"] == 422
    assert console.client.get("/healthz").status_code == 200


def test_a_token_lets_in_and_no_other_does() -> None:
    with running(access=checked("127.0.0.1", token_file=True, behind_proxy=None)) as console:
        assert console.get("overview", headers=bearer(TOKEN)).status_code == 401  # there is no file


def test_a_token_in_the_header_lets_in(locked: tuple[Running, Path]) -> None:
    console, _ = locked
    assert console.get("overview", headers=bearer(TOKEN)).status_code == 200
    answer = console.get("overview", headers=bearer(OTHER))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert console.get("overview", params={"token": TOKEN}).status_code == 401


def test_a_page_logs_in_changes_something_and_logs_out(locked: tuple[Running, Path]) -> None:
    console, _ = locked
    with httpx.Client(base_url=console.url, headers=PAGE) as page:
        assert page.get("/api/v1/session").json()["login"] is True
        assert page.post("/api/v1/session", json={"token": "wrong"}).status_code == 401
        answer = page.post("/api/v1/session", json={"token": TOKEN})
        cookie = answer.headers["set-cookie"]
        assert all(part in cookie for part in ("HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=43200"))
        assert "Secure" not in cookie
        session = page.get("/api/v1/session").json()
        assert (session["who"], session["login"]) == ("token", False)
        assert page.post("/api/v1/tables/dbo.Orders/pause", json={}).status_code == 403
        csrf = {"X-CSRF-Token": session["csrf"]}
        assert page.post("/api/v1/tables/dbo.Orders/pause", json={}, headers=csrf).status_code == 200
        assert console.audit.written[-1].through == "page"
        kept = page.cookies.get("dstream-session")
        assert page.delete("/api/v1/session", headers=csrf).status_code == 200
        assert page.get("/api/v1/overview").status_code == 401
    assert console.get("overview", headers={"Cookie": f"dstream-session={kept}"}).status_code == 401


def test_who_has_a_token_with_a_name_is_in_the_audit_log(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(f"ada:{TOKEN}\n{OTHER}\n")
    with running(token_file=path) as console:
        for token, who, change in ((TOKEN, "ada", "pause"), (OTHER, "token", "resume")):
            assert console.post(f"tables/dbo.Orders/{change}", {}, headers=bearer(token)).status_code == 200
            assert {line.who for line in console.audit.written[-2:]} == {who}
            assert console.post("session", {"token": token}).json()["who"] == who
            assert console.get("session").json()["who"] == who  # by its cookie
        assert console.get("overview", headers=bearer(f"ada:{TOKEN}")).status_code == 401


def test_behind_tls_the_cookie_is_for_tls_alone(locked: tuple[Running, Path]) -> None:
    console, _ = locked
    answer = console.post("session", {"token": TOKEN}, headers={"X-Forwarded-Proto": "https"})
    assert answer.headers["set-cookie"].startswith("__Host-dstream-session=")
    assert answer.headers["set-cookie"].endswith("; Secure")


def test_a_new_token_ends_the_sessions_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    with running(token_file=path) as console:
        assert console.served.tokens is not None
        now = 0.0
        console.served.tokens.now = lambda: now
        assert console.post("session", {"token": TOKEN}).status_code == 200
        assert console.get("overview").status_code == 200  # by its cookie
        path.write_text(OTHER)
        now = 1e9
        assert console.get("overview").status_code == 401
        console.client.cookies.clear()
        assert console.get("overview", headers=bearer(TOKEN)).status_code == 401
        assert console.get("overview", headers=bearer(OTHER)).status_code == 200


def test_who_guesses_tokens_must_wait(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(TOKEN)
    limits = Limits(logins=Limit("failed logins", Rate(per_second=0.01, burst=3)))
    with running(token_file=path, limits=limits) as console:
        found = [console.get("overview", headers=bearer(f"guess {number}")).status_code for number in range(5)]
        assert found == [401, 401, 401, 429, 429]
        answer = console.post("session", {"token": "guess"})
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) > 1
        assert console.get("overview", headers=bearer(TOKEN)).status_code == 200  # others may have this address
        assert console.post("session", {"token": TOKEN}).status_code == 200


def test_who_asks_too_often_must_wait() -> None:
    limits = Limits(requests=Limit("requests", Rate(per_second=0.05, burst=5)))
    with running(limits=limits) as console:
        found = [console.get("session") for _ in range(7)]
        assert [each.status_code for each in found] == [200] * 5 + [429] * 2
        assert 1 <= int(found[-1].headers["retry-after"]) <= 20
        assert found[-1].json()["type"] == "about:blank#too-many"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8090", "127.0.0.1.evil.example"])
@pytest.mark.parametrize("path", ["/api/v1/overview", "/", "/api/v1/openapi.json", "/healthz"])
def test_a_foreign_name_for_this_machine_is_refused(console: Running, host: str, path: str) -> None:
    answer = console.client.get(path, headers={"Host": host})
    assert answer.status_code == 403
    assert "localhost" in answer.json()["remedy"]


FOREIGN = [
    {"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "same-origin"},
    {"Referer": "http://evil.example/"},
    {"Cookie": "a=b"},
    {"Sec-Fetch-Site": "same-origin", "X-CSRF-Token": "guessed"},
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_a_foreign_page_changes_nothing(console: Running, headers: dict[str, str]) -> None:
    before = len(console.audit.written)
    assert console.post("tables/dbo.Orders/pause", {}, headers=headers).status_code == 403
    assert len(console.audit.written) == before


def test_a_foreign_page_s_form_is_not_read(console: Running) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        answer = console.client.post(
            "/api/v1/tables/dbo.Orders/pause", content=b'{"reason":"x"}', headers={"Content-Type": kind}
        )
        assert answer.status_code == 415


def test_no_other_site_may_read(console: Running) -> None:
    answer = console.client.options(
        "/api/v1/overview", headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "GET"}
    )
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["/api/v1/overview", "/api/v1/tables/nope", "/", "/nope", "/healthz"])
def test_every_answer_has_the_headers_that_protect_a_browser(console: Running, path: str) -> None:
    headers = console.client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-opener-policy"] == headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in headers


def test_a_proxy_names_the_person() -> None:
    with running(access=PROXY) as console:
        assert console.get("overview").status_code == 401
        ada = {"X-User": "ada@example.com"}
        assert console.get("session", headers=ada).json()["who"] == "ada@example.com"
        assert console.post("tables/dbo.Orders/pause", {}, headers=ada).status_code == 200
        assert console.audit.written[-1].who == "ada@example.com"
        twice = [("X-User", "mallory"), ("X-User", "ada@example.com")]
        assert console.client.get("/api/v1/overview", headers=twice).status_code == 403


def test_what_does_not_come_through_the_proxy_is_refused() -> None:
    access = checked("127.0.0.1", token_file=False, behind_proxy="X-User", trusted_proxies=["192.0.2.0/24"])
    with running(access=access) as console:
        assert console.get("overview", headers={"X-User": "ada"}).status_code == 403


def test_behind_a_proxy_a_foreign_name_reaches_nothing_but_the_probes() -> None:
    access = checked("127.0.0.1", token_file=False, behind_proxy="X-User", public_names=["console.example.com"])
    with running(access=access) as console:
        for path in ("/", "/api/v1/overview", "/api/v1/openapi.json"):
            answer = console.client.get(path, headers={"X-User": "ada", "Host": "evil.example"})
            assert answer.status_code == 403
            assert "--public-name" in answer.json()["remedy"]
        assert console.client.get("/healthz", headers={"Host": "10.0.0.7:8090"}).status_code == 200
        ada = {"X-User": "ada", "Host": "console.example.com"}
        session = console.get("session", headers={**ada, **PAGE}).json()
        change = {**ada, **PAGE, "Origin": "https://console.example.com", "X-CSRF-Token": session["csrf"]}
        assert console.post("tables/dbo.Orders/pause", {}, headers=change).status_code == 200


def test_people_behind_one_proxy_do_not_use_up_each_other_s_requests() -> None:
    limits = Limits(requests=Limit("requests", Rate(per_second=0.1, burst=2)))
    with running(access=PROXY, limits=limits) as console:
        for who in ("ada", "grace"):
            found = [console.get("session", headers={"X-User": who}).status_code for _ in range(3)]
            assert found == [200, 200, 429]


def test_a_read_only_console_refuses_changes_with_the_remedy() -> None:
    with running(allow_changes=False) as console:
        assert console.get("session").json()["changes_allowed"] is False
        answer = console.post("tables/dbo.Orders/pause", {})
        assert answer.status_code == 403
        assert "--allow-changes" in answer.json()["remedy"]
        assert [line.outcome for line in console.audit.written] == ["refused"]
        assert console.post("tables/dbo.Orders/offset", {"earliest": True}).json()["dry_run"] is True


def test_without_an_audit_log_nothing_is_changed() -> None:
    with running() as console:
        console.audit.full = True
        answer = console.post("tables/dbo.Orders/pause", {})
        assert (answer.status_code, answer.json()["type"]) == (503, "about:blank#audit")
        assert console.get("tables/dbo.Orders").json()["pause"] is None


def test_no_token_is_logged(locked: tuple[Running, Path], capfd: pytest.CaptureFixture[str]) -> None:
    console, _ = locked
    console.get("overview", headers=bearer(TOKEN))
    console.post("session", {"token": TOKEN})
    console.post("session", {"token": TOKEN, "more": 1})
    said = capfd.readouterr()
    assert TOKEN not in said.out + said.err


def of_another_account(console: Running) -> socket.socket:
    """A connection of an account that is neither the console's nor root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        return socket.create_connection(("127.0.0.1", console.port), 10)
    finally:
        if root:
            os.seteuid(0)


def test_another_account_of_this_machine_is_not_let_in() -> None:
    own = os.geteuid()
    with running(peers=Peers(own if own == 0 else own + 1)) as console, of_another_account(console) as connection:
        client = http.client.HTTPConnection("localhost", console.port)
        client.sock = connection
        before = len(console.audit.written)
        found = dict[str, int]()
        for path in ("overview", "session", "tables/dbo.Orders/pause"):
            body = "{}" if "pause" in path else None
            client.request("POST" if body else "GET", f"/api/v1/{path}", body, {"Content-Type": "application/json"})
            answer = client.getresponse()
            found[path] = answer.status
            assert "--token-file" in json.loads(answer.read())["remedy"]
        assert set(found.values()) == {403}
        assert len(console.audit.written) == before

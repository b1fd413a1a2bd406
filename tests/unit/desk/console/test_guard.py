"""Each decision of the guard, from the head of a request alone."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from desk.console.access import Access, checked
from desk.console.guard import Asked, Identity, check_csrf, check_host, check_origin, cookie_of, identity, is_secure
from desk.console.refusals import NotAllowed, Unauthenticated

LOCAL = checked("127.0.0.1", token_file=False, behind_proxy=None)
TOKEN = checked("0.0.0.0", token_file=True, behind_proxy=None)
PROXY = checked("0.0.0.0", token_file=False, behind_proxy="X-User", trusted_proxies=["10.0.0.0/8"])


def asked(
    method: str = "GET", *headers: tuple[str, str], address: str = "10.1.1.1", host: str = "localhost:8090"
) -> Asked:
    return Asked(method, "/api/v1/tables", (("host", host), *headers), address)


@dataclass(frozen=True, slots=True)
class Knows:
    def token(self, given: str) -> str | None:
        return {"right": "token", "grace's": "grace"}.get(given)

    def session(self, cookie: str) -> str | None:
        return {"good": "token", "grace-s": "grace"}.get(cookie)

    def csrf(self, subject: str, given: str) -> bool:
        return given == f"csrf of {subject}"


@pytest.mark.parametrize(
    "host", ["localhost", "localhost:8090", "LOCALHOST:1", "127.0.0.1:8090", "127.1.2.3", "[::1]:8090", "localhost."]
)
def test_this_machine_s_names_are_let_in(host: str) -> None:
    check_host(LOCAL, asked(host=host))


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1@evil.example",
        "evil@localhost",
        "10.0.0.1",
        "",
        "[",
        "[::1",
        "2130706433",
        "0x7f.1",
    ],
)
def test_a_foreign_name_for_this_machine_is_not(host: str) -> None:
    with pytest.raises(NotAllowed, match="does not name this machine"):
        check_host(LOCAL, asked(host=host))


def test_where_a_token_is_needed_any_name_will_do() -> None:
    check_host(TOKEN, asked(host="console.example"))
    with pytest.raises(NotAllowed, match="or several"):
        check_host(TOKEN, Asked("GET", "/", (("host", "a"), ("host", "b")), "10.0.0.1"))


NAMED = checked(
    "0.0.0.0", token_file=False, behind_proxy="X-User", public_names=["Console.example.com", "console", "[fd00::7]"]
)


@pytest.mark.parametrize("host", ["console.example.com", "CONSOLE.example.com.:443", "console:8090", "localhost:8090"])
@pytest.mark.parametrize(
    "forwarded",
    [(), ("console.example.com",), ("console.example.com, console:80",), ("[fd00::7]",), ("console.example.com,",)],
)
def test_behind_a_proxy_the_public_names_and_this_machine_s_are_let_in(host: str, forwarded: tuple[str, ...]) -> None:
    check_host(NAMED, asked("GET", *(("x-forwarded-host", each) for each in forwarded), host=host))


@pytest.mark.parametrize(
    ("host", "forwarded"),
    [
        ("evil.example", ()),
        ("console.example.com.evil.example", ()),
        ("console.example.com@evil.example", ()),
        ("10.0.0.1:8090", ()),
        ("", ()),
        ("console", ("evil.example",)),
        ("console", ("console.example.com, evil.example",)),
        ("console", ("console.example.com", "evil.example")),
        ("console", ("",)),
    ],
)
def test_behind_a_proxy_another_name_is_refused_with_the_option(host: str, forwarded: tuple[str, ...]) -> None:
    with pytest.raises(NotAllowed, match="a host that is not this console's") as caught:
        check_host(NAMED, asked("GET", *(("x-forwarded-host", each) for each in forwarded), host=host))
    assert "--public-name HOST" in str(caught.value.hint)


def test_behind_a_proxy_without_a_public_name_this_machine_s_names_alone_are_let_in() -> None:
    check_host(PROXY, asked(host="127.0.0.1:8090"))
    with pytest.raises(NotAllowed, match="--public-name"):
        check_host(PROXY, asked(host="console.example.com"))


def test_a_probe_that_comes_past_the_proxy_to_an_address_is_answered() -> None:
    check_host(NAMED, Asked("GET", "/healthz", (("host", "10.244.1.7:8090"),), "10.1.1.1"))
    with pytest.raises(NotAllowed):
        check_host(LOCAL, Asked("GET", "/healthz", (("host", "10.244.1.7:8090"),), "10.1.1.1"))


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_site_s_page_is_refused(method: str, site: str) -> None:
    with pytest.raises(NotAllowed, match="another site"):
        check_origin(LOCAL, asked(method, ("sec-fetch-site", site)))


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "https://localhost.evil:8090", "http://localhost:9999", "http://[", "file://", ""],
)
def test_a_change_from_another_origin_is_refused(origin: str) -> None:
    with pytest.raises(NotAllowed, match="Origin"):
        check_origin(LOCAL, asked("POST", ("origin", origin)))


def test_a_change_from_the_console_s_own_page_is_not() -> None:
    check_origin(LOCAL, asked("POST", ("origin", "http://localhost:8090"), ("sec-fetch-site", "same-origin")))
    check_origin(LOCAL, asked("POST", ("origin", "https://desk.example"), ("x-forwarded-host", "desk.example")))
    check_origin(LOCAL, asked("POST"))


@pytest.mark.parametrize(
    "origin", ["https://console.example.com", "https://CONSOLE.example.com:8443", "https://[fd00::7]"]
)
def test_behind_a_proxy_with_its_own_host_a_page_of_a_public_name_may_change_something(origin: str) -> None:
    check_origin(NAMED, asked("POST", ("origin", origin), ("sec-fetch-site", "same-origin"), host="upstream:8090"))


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "https://console.example.com.evil.example",
        "https://console@evil.example",
        "null",
        "ftp://console",
    ],
)
def test_behind_a_proxy_another_page_is_refused_with_the_headers_that_the_proxy_must_set(origin: str) -> None:
    with pytest.raises(NotAllowed, match="Origin") as caught:
        check_origin(NAMED, asked("POST", ("origin", origin), host="console:8090"))
    hint = str(caught.value.hint)
    assert all(each in hint for each in ("Host header", "X-Forwarded-Host", "--public-name HOST"))


def test_the_name_of_a_public_host_is_right_behind_a_proxy_alone() -> None:
    with pytest.raises(NotAllowed, match="Origin"):
        check_origin(TOKEN, asked("POST", ("origin", "https://console.example.com")))


def test_on_this_machine_the_person_is_the_account() -> None:
    assert identity(LOCAL, asked(), Knows(), "anna") == Identity("anna", "local", "http")
    assert identity(LOCAL, asked("GET", ("sec-fetch-site", "same-origin")), Knows(), "anna").through == "page"


@pytest.mark.parametrize("given", ["Bearer right", "bearer right", "Bearer  right "])
def test_the_token_lets_in(given: str) -> None:
    assert identity(TOKEN, asked("GET", ("authorization", given)), Knows(), "anna").explicit


@pytest.mark.parametrize("given", ["Bearer wrong", "Basic right", "right", "Bearer", "", "Bearer right x"])
def test_nothing_else_does(given: str) -> None:
    with pytest.raises(Unauthenticated, match="not right"):
        identity(TOKEN, asked("GET", ("authorization", given)), Knows(), "anna")


def test_a_token_with_a_name_is_that_person_s() -> None:
    assert identity(TOKEN, asked("GET", ("authorization", "Bearer grace's")), Knows(), "local").who == "grace"
    assert identity(TOKEN, asked("GET", ("cookie", "dstream-session=grace-s")), Knows(), "local").who == "grace"


def test_a_wrong_token_is_not_made_good_by_a_cookie() -> None:
    with pytest.raises(Unauthenticated):
        identity(TOKEN, asked("GET", ("authorization", "Bearer no"), ("cookie", "dstream-session=good")), Knows(), "x")


def test_a_session_lets_in() -> None:
    found = identity(TOKEN, asked("GET", ("cookie", "a=b; dstream-session=good")), Knows(), "anna")
    assert (found.who, found.through, found.explicit, found.cookie) == ("token", "page", False, "good")
    with pytest.raises(Unauthenticated, match="nobody is logged in"):
        identity(TOKEN, asked("GET", ("cookie", "dstream-session=bad")), Knows(), "anna")


def test_the_cookie_of_tls_comes_first() -> None:
    assert cookie_of(asked("GET", ("cookie", "dstream-session=planted; __Host-dstream-session=own"))) == "own"
    assert cookie_of(asked("GET", ("cookie", ";;="))) is None


def test_the_proxy_names_the_person() -> None:
    found = identity(PROXY, asked("GET", ("x-user", " Ada\x07 ")), Knows(), "anna")
    assert found.who == "Ada?"


@pytest.mark.parametrize(
    ("headers", "address", "error"),
    [
        ((), "10.1.1.1", Unauthenticated),
        ((("x-user", " "),), "10.1.1.1", Unauthenticated),
        ((("x-user", "mallory"), ("x-user", "ada")), "10.1.1.1", NotAllowed),
        ((("x-user", "ada"),), "192.0.2.1", NotAllowed),
        ((("authorization", "Bearer right"),), "10.1.1.1", Unauthenticated),
    ],
)
def test_nobody_else_names_one(headers: tuple[tuple[str, str], ...], address: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        identity(PROXY, asked("GET", *headers, address=address), Knows(), "anna")


BROWSER = [
    ("origin", "http://localhost:8090"),
    ("sec-fetch-site", "same-origin"),
    ("sec-fetch-mode", "cors"),
    ("referer", "http://localhost:8090/"),
    ("cookie", "x=y"),
]


@pytest.mark.parametrize("header", BROWSER)
@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_change_from_a_browser_needs_the_page_s_token(method: str, header: tuple[str, str]) -> None:
    found = Identity("anna", "local", "page")
    with pytest.raises(NotAllowed, match="X-CSRF-Token"):
        check_csrf(asked(method, header), found, Knows())
    with pytest.raises(NotAllowed, match="X-CSRF-Token"):
        check_csrf(asked(method, header, ("x-csrf-token", "csrf of another")), found, Knows())
    check_csrf(asked(method, header, ("x-csrf-token", "csrf of local")), found, Knows())


def test_programs_and_looks_do_not() -> None:
    check_csrf(asked("POST"), Identity("anna", "local", "http"), Knows())
    check_csrf(asked("POST", BROWSER[0]), Identity("token", "token", "http", explicit=True), Knows())
    check_csrf(asked("GET", BROWSER[0]), Identity("anna", "local", "page"), Knows())


@pytest.mark.parametrize(
    ("access", "headers", "secure"),
    [
        (LOCAL, (), False),
        (Access("0.0.0.0", "token", tls=True), (), True),
        (TOKEN, (("x-forwarded-proto", "https"),), True),
        (TOKEN, (("x-forwarded-proto", "http"),), False),
    ],
)
def test_a_cookie_is_for_tls_where_the_browser_speaks_it(
    access: Access, headers: tuple[tuple[str, str], ...], secure: bool
) -> None:
    assert is_secure(access, asked("GET", *headers)) is secure

"""Which options a console starts with, and which it refuses because anybody could come in."""

from __future__ import annotations

from typing import Literal

import pytest

from common.errors import ConfigurationError
from desk.console.access import Access, checked, is_loopback, is_shared, is_trusted


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "localhost", "::1"])
def test_this_machine_needs_no_token(host: str) -> None:
    assert checked(host, token_file=False, behind_proxy=None).mode == "local"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "console.internal", "127.0.0.1.example.com", ""])
def test_another_address_needs_a_token_or_a_proxy(host: str) -> None:
    with pytest.raises(ConfigurationError, match="--token-file FILE, or --behind-proxy HEADER"):
        checked(host, token_file=False, behind_proxy=None)
    assert checked(host, token_file=True, behind_proxy=None).mode == "token"
    assert checked(host, token_file=False, behind_proxy="X-Forwarded-User").header == "x-forwarded-user"


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"token_file": True, "behind_proxy": "X-User"}, "exclude each other"),
        ({"token_file": False, "behind_proxy": "X User"}, "no name of a header"),
        ({"token_file": False, "behind_proxy": ""}, "no name of a header"),
        ({"token_file": False, "behind_proxy": None, "trusted_proxies": ["10.0.0.0/8"]}, "needs --behind-proxy"),
        ({"token_file": False, "behind_proxy": "X-User", "trusted_proxies": ["10.0.0.1/8"]}, "host bits"),
        ({"token_file": True, "behind_proxy": None, "public_names": ["console"]}, "needs --behind-proxy"),
        *(
            ({"token_file": False, "behind_proxy": "X-User", "public_names": [each]}, "no name of a host")
            for each in ("https://console", "console:443", "console/", "*.example.com", "a b", "a,b", "", "fd00::1")
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, object], what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        checked("127.0.0.1", **given)  # type: ignore[arg-type]


def test_a_name_is_never_resolved() -> None:
    assert not is_loopback("localhost.localdomain")


def test_only_the_proxy_s_network_may_name_people() -> None:
    access = checked("0.0.0.0", token_file=False, behind_proxy="X-User", trusted_proxies=["10.1.0.0/16", "fd00::/8"])
    assert [is_trusted(access, each) for each in ("10.1.2.3", "::ffff:10.1.2.3", "fd00::1", "10.2.0.1", "unknown")] == [
        True,
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("mode", ["local", "token"])
def test_this_machine_s_address_is_of_many(mode: Literal["local", "token"]) -> None:
    shared = [is_shared(Access("::", mode), each) for each in ("127.0.0.1", "::1", "::ffff:127.0.0.1", "unknown")]
    assert shared == [True] * 4
    assert not is_shared(Access("::", mode), "10.0.0.7")


def test_a_proxy_s_address_is_of_many() -> None:
    access = checked("0.0.0.0", token_file=False, behind_proxy="X-User", trusted_proxies=["10.1.0.0/16"])
    assert [is_shared(access, each) for each in ("10.1.2.3", "10.2.0.1", "127.0.0.1")] == [True, False, False]
    anywhere = checked("0.0.0.0", token_file=False, behind_proxy="X-User")
    assert is_shared(anywhere, "192.0.2.1")

"""SQL Server addresses in both spellings; what is refused, and that nothing of a password shows in a refusal."""

from __future__ import annotations

import contextlib
import pickle
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.sqladdress import SqlAddress

PLAIN = SqlAddress.parse("Server=host;Database=DB;User Id=u;Password=pass")
printable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)


@pytest.mark.parametrize(
    ("text", "host", "port", "instance"),
    [
        ("sqlserver://u:pass@host:1433?database=DB", "host", 1433, None),
        ("sqlserver://u:pass@host?database=DB", "host", None, None),
        ("sqlserver://u:pass@host/inst?database=DB", "host", None, "inst"),
        ("sqlserver://u:pass@[::1]:1433?database=DB", "::1", 1433, None),
        ("SQLSERVER://u:pass@10.0.0.1:1?Initial+Catalog=DB", "10.0.0.1", 1, None),
        ("Server=tcp:host,1433;Database=DB;User Id=u;Password=pass", "host", 1433, None),
        ("Data Source=host\\inst;Initial Catalog=DB;UID=u;PWD=pass", "host", None, "inst"),
        ("address=host\\inst,1500;database=DB;user=u;password=pass;", "host", 1500, "inst"),
        ("server = . ;; database = DB ; uid = u ; pwd = pass ; ", "localhost", None, None),
        ("Server=(local);Port=1433;Database=DB;UID=u;PWD=pass", "localhost", 1433, None),
        ("Server=[::1],1433;Database=DB;UID=u;PWD=pass", "::1", 1433, None),
        ("Server=::1;Database=DB;UID=u;PWD=pass", "::1", None, None),
    ],
)
def test_both_spellings_say_where_the_server_is(text: str, host: str, port: int | None, instance: str | None) -> None:
    address = SqlAddress.parse(text)
    assert (address.host, address.port, address.instance) == (host, port, instance)
    assert (address.database, address.user, address.password.get_secret_value()) == ("DB", "u", "pass")


def test_azure_portals_string_loads_as_it_is_copied() -> None:
    address = SqlAddress.parse(
        "Server=tcp:shop.database.windows.net,1433;Initial Catalog=shop;Persist Security Info=False;User ID=u;Password=p;"
        "MultipleActiveResultSets=False;Encrypt=True;TrustServerCertificate=False;Connection Timeout=30;"
    )
    assert address.encrypt == "mandatory"
    assert address.options == {"trust_server_certificate": "false", "connect_timeout": "30"}


@pytest.mark.parametrize(
    ("given_", "encrypt"),
    [("yes", "mandatory"), ("True", "mandatory"), ("no", "optional"), ("strict", "strict"), ("disable", "disable")],
)
def test_encrypt_has_one_word_for_each_meaning(given_: str, encrypt: str) -> None:
    assert SqlAddress.parse(f"Server=h;Database=d;UID=u;PWD=p;Encrypt={given_}").encrypt == encrypt
    assert SqlAddress.parse(f"sqlserver://u:p@h?database=d&encrypt={given_}").encrypt == encrypt
    assert PLAIN.encrypt is None


@pytest.mark.parametrize("host", ["db.example", "10.1.2.3", "127.example.com", "localhost.example"])
def test_who_says_nothing_gets_encryption_that_is_verified(host: str) -> None:
    address = SqlAddress.parse(f"Server={host};Database=d;UID=u;PWD=p")
    assert (address.encryption, address.verified) == ("mandatory", True)
    assert SqlAddress.parse(f"Server={host};Database=d;UID=u;PWD=p;Encrypt=optional").encryption == "optional"


@pytest.mark.parametrize("host", ["localhost", "LocalHost", "127.0.0.1", "127.4.5.6", "::1", ".", "(local)"])
def test_this_machine_is_reached_as_its_server_likes(host: str) -> None:
    address = SqlAddress.parse(f"Server={host};Database=d;UID=u;PWD=p")
    assert (address.encryption, address.verified) == ("optional", False)
    assert SqlAddress.parse(f"Server={host};Database=d;UID=u;PWD=p;Encrypt=true").verified


@pytest.mark.parametrize(("given_", "verified"), [("true", False), ("strict", True), ("false", False)])
def test_trusting_the_server_switches_verifying_off_but_for_strict(given_: str, verified: bool) -> None:
    text = f"Server=h;Database=d;UID=u;PWD=p;Encrypt={given_};TrustServerCertificate=true"
    assert SqlAddress.parse(text).verified == verified


@pytest.mark.parametrize(
    ("written", "seconds"), [("", 10), ("Connect Timeout=30", 30), ("Connection Timeout=0", 120), ("Timeout=9999", 120)]
)
def test_a_login_may_take_as_long_as_the_address_says_within_bounds(written: str, seconds: int) -> None:
    assert SqlAddress.parse(f"Server=h;Database=d;UID=u;PWD=p;{written}").login_seconds == seconds


def test_the_intent_to_write_and_every_subnet_are_what_is_done_anyway() -> None:
    text = "Server=h;Database=d;UID=u;PWD=p;ApplicationIntent=ReadWrite;MultiSubnetFailover=True;Packet Size=8192"
    assert SqlAddress.parse(text).options == {
        "application_intent": "ReadWrite",
        "multi_subnet_failover": "true",
        "packet_size": "8192",
    }


@pytest.mark.parametrize(
    ("written", "password"),
    [
        ("'a;b''c'", "a;b'c"),
        ('"a;b""c"', 'a;b"c'),
        ("{a;b}}c}", "a;b}c"),
        ("a=b==c", "a=b==c"),
        ("a'b\"c", "a'b\"c"),
        ("  spaced out  ", "spaced out"),
        ("'  kept  '", "  kept  "),
    ],
)
def test_ado_values_may_be_quoted(written: str, password: str) -> None:
    address = SqlAddress.parse(f"Server=h;Database=d;UID=u;PWD={written};Encrypt=no")
    assert address.password.get_secret_value() == password


@given(printable, printable)
def test_any_user_and_password_come_through_both_spellings(user: str, password: str) -> None:
    url = SqlAddress.parse(f"sqlserver://{quote(user, safe='')}:{quote(password, safe='')}@h:1?database=d")
    ado = SqlAddress.parse(
        f"Server=h;Database=d;UID='{user.replace(chr(39), chr(39) * 2)}';PWD=\"{password.replace(chr(34), chr(34) * 2)}\""
    )
    for address in (url, ado):
        assert (address.user, address.password.get_secret_value()) == (user, password)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is empty"),
        ("server=localhost;database=testdb;trusted_connection=true", "integrated login"),
        ("server=h;database=d;Integrated Security=SSPI", "integrated login"),
        ("server=h;database=d;uid=u;pwd=p;authentication=Active Directory Password", "needs a person or a secret"),
        ("server=h;database=d;authentication=Active Directory Interactive", "needs a person .*ManagedIdentity"),
        ("sqlserver://h?database=d&fedauth=ActiveDirectoryServicePrincipal", "needs a person or a secret"),
        ("server=h;database=d;pwd=p;authentication=ActiveDirectoryMSI", "an identity and has a password"),
        ("server=h;database=d;authentication=ActiveDirectoryMSI;encrypt=no", "never sent in clear text"),
        ("server=h;database=d;authentication=ActiveDirectoryMSI;encrypt=optional", "never sent in clear text"),
        ("server=h;authentication=ActiveDirectoryMSI", "no database"),
        ("server=h;database=d;uid=u;pwd=p;authentication=hunter2", "other than SqlPassword"),
        (
            "server=tcp:h.database.windows.net,1433;database=d",
            "neither user nor password: .*ActiveDirectoryManagedIdentity",
        ),
        ("database=d;uid=u;pwd=p", "no server"),
        ("server=h;uid=u;pwd=p", "no database"),
        ("server=h;database=d;pwd=p", "no user"),
        ("server=h;database=d;uid=u", "no password"),
        ("server=np:\\\\h\\pipe;database=d;uid=u;pwd=p", "protocol other than tcp"),
        ("server=(localdb)\\v11;database=d;uid=u;pwd=p", "LocalDB"),
        ("server=h,99999;database=d;uid=u;pwd=p", "port"),
        ("server=h;database=d;uid=u;pwd=p;encrypt=maybe", "Encrypt"),
        ("server=h;database=d;uid=u;pwd=p;TrustServerCertificate=maybe", "trust server certificate"),
        ("server=h;database=d;uid=u;pwd=p;Connect Timeout=soon", "connect timeout"),
        ("server=h;database=d;uid=u;pwd=p;ApplicationIntent=ReadOnly", "readable secondary .* offsets are written"),
        ("server=h;database=d;uid=u;pwd=p;ApplicationIntent=Both", "ApplicationIntent other than ReadWrite"),
        ("server=h;database=d;uid=u;pwd=p;Packet Size=100", "packet size that is not from 512"),
        ("server=h;database=d;uid=u;pwd=p;Encript=yes", 'part 5 .did you mean "encrypt"'),
        ("server=h;database=d;uid=u;pwd='p", "part 4 has no `=`, or a quote is not closed"),
        ("server", "^is neither sqlserver://... nor Key=Value;...: part 1 has no `=`, or a quote is not closed$"),
        ("jdbc:sqlserver://h:1433;databaseName=d;user=u;password=p", "neither sqlserver://.* part 1 has no `=`"),
        ("u:p@h:1433?database=d", "^is neither sqlserver://... nor Key=Value;...: part 1 begins like a URL"),
        ("h/d", "neither sqlserver://.* part 1 has no `=`"),
        (
            "Driver={ODBC Driver 18 for SQL Server};Server=h;Database=d;UID=u;PWD=p",
            "ODBC .*not taken.*Server=.*;Database=",
        ),
        ("DSN=shop;UID=u;PWD=p", "ODBC .*not taken"),
        (
            "server=h;database=d;uid=u;pwd=p;Connect Timeout=-1",
            "connect timeout that is not a whole number of seconds from 0",
        ),
        ("sqlserver://u:p@h:99999?database=d", "port that is not a number from 1 to 65535"),
        ("sqlserver://h:abc?database=d", "port that is not a number from 1 to 65535"),
        ("sqlserver://u:p/q@h?database=d", "percent-encode"),
        ("mysql://u:p@h?database=d", "not a sqlserver:// one"),
        ("sqlserver://u:p@h:port?database=d", "^has a port that is not a number from 1 to 65535$"),
        ("sqlserver://u:p#q@h?database=d", "percent-encode"),
        ("sqlserver://u:p@h/a/b?database=d", "host/instance"),
        ("sqlserver://u:p@h?database=d&colour=red", "unknown key in its parameter 2"),
        ("sqlserver://u:p@h?database=d&password=q", "twice"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_reason(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        SqlAddress.parse(text)


def test_integrated_login_that_is_switched_off_is_no_reason_to_refuse() -> None:
    assert SqlAddress.parse("Server=host;Database=DB;User Id=u;Password=pass;Trusted_Connection=no") == PLAIN


@pytest.mark.parametrize(
    "text",
    [
        "Server=h;Database=d;UID=u;PWD=ab;hunter2=x",
        "Server=h;Database=d;UID=u;PWD=ab;hunter2",
        "Server=h;Database=d;UID=u;PWD='hunter2",
        "sqlserver://u:hunter2/x@h?database=d",
        "sqlserver://u:x#hunter2@h?database=d",
        "sqlserver://u:x@h:hunter2?database=d",
        "hunter2",
        "hunter2://u@h",
    ],
)
def test_no_refusal_repeats_any_of_the_text(text: str) -> None:
    with pytest.raises(ValueError) as raised:
        SqlAddress.parse(text)
    assert "hunter2" not in str(raised.value)


@given(st.text(max_size=60) | st.text(alphabet="server=h;daub/:@?#&'\"{}\\, ", max_size=60))
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert SqlAddress.parse(text).host


def test_an_address_can_travel_to_another_process_and_hides_its_password() -> None:
    assert pickle.loads(pickle.dumps(PLAIN)) == PLAIN
    assert "pass'" not in repr(PLAIN).replace("password=", "")
    assert "pass" not in str(PLAIN).replace("password=", "")


@pytest.mark.parametrize(
    ("said", "identity"),
    [
        ("Active Directory Managed Identity", "managed"),
        ("ActiveDirectoryManagedIdentity", "managed"),
        ("Active Directory MSI", "managed"),
        ("ActiveDirectoryWorkloadIdentity", "workload"),
        ("Active Directory Default", "default"),
        ("activedirectorydefault", "default"),
    ],
)
def test_an_identity_logs_in_without_a_password(said: str, identity: str) -> None:
    ado = SqlAddress.parse(f"Server=tcp:h.database.windows.net,1433;Database=d;Authentication={said}")
    url = SqlAddress.parse(f"sqlserver://h.database.windows.net:1433?database=d&fedauth={quote(said)}")
    assert ado == url
    assert (ado.identity, ado.user, ado.password.get_secret_value()) == (identity, "", "")
    assert (ado.encryption, ado.verified) == ("mandatory", True)


def test_one_of_several_identities_is_chosen_by_client_id_and_the_token_is_encrypted_on_this_machine_too() -> None:
    chosen = "00000000-1111-2222-3333-444444444444"
    for text in (
        f"Server=localhost;Database=d;Authentication=ActiveDirectoryMSI;User Id={chosen}",
        f"sqlserver://localhost?database=d&fedauth=ActiveDirectoryMSI&user+id={chosen}",
    ):
        address = SqlAddress.parse(text)
        assert (address.user, address.encryption) == (chosen, "mandatory")

"""No character that a rule hides is shown, in whatever way the file writes an address."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from desk.configuring import outputs, secrets
from desk.configuring.hcl.draft import Draft
from desk.configuring.hcl.original import Original

FILE = """\
router {
  # first
  output "a" {
    type = "webhook"
    url  = %s
  }
  output "b" {
    type = "elasticsearch"
    urls = [%s]
  }
  route {
    from  = ["dbo.Orders"]
    to    = ["a"]
    topic = %s
  }
}
"""
HOST = '"https://h.example"'


def text_of(url: str = HOST, urls: str = HOST, topic: str = '"x"') -> str:
    return FILE % (url, urls, topic)


def shown(text: str) -> str:
    """All that a person sees of it."""
    draft = Draft(text, "x")
    assert secrets.literal_secrets(text, draft.document)
    masked = secrets.masked(Original.of(text).text, draft.document)
    return masked + "".join(f"{each.settings} {each.routes}\n" for each in outputs.outputs(draft))


@pytest.mark.parametrize(
    "written",
    [
        '"postgres://u:HID/DEN@h.example:5432/x"',
        '"nats://u:HID?DEN@h.example"',
        '"nats://HID?DEN@h.example"',
        '"https://u:HID#DEN@h.example/"',
        '"https://u:HID@DEN/HID#DEN@h.example/"',
    ],
)
def test_a_password_is_hidden_as_a_whole(written: str) -> None:
    for text in (text_of(url=written), text_of(urls=written)):
        seen = shown(text)
        assert "HID" not in seen
        assert "DEN" not in seen


@pytest.mark.parametrize(
    "written",
    [
        '"{{ env("HOST", "") ~ "/services/HIDDEN" }}"',
        '"{{ env("URL", "") or "https://h.example/HIDDEN" }}"',
        "\"{{ env('URL', '') | default('https://h.example/HIDDEN', true) }}\"",
        '"{{ env(\\"HOST\\") ~ \\"/HIDDEN\\" }}"',
        '"{{ env("HOST", default="/HIDDEN") }}"',
        '"{{ env("HOST", "h.example/HIDDEN") }}"',
        '"{{ env("HOST") }}{{ "/HIDDEN" ~ env("REST") }}"',
        '"{{ env("HOST") }}/HIDDEN"',
        '"https://{{ env("HOST", "h.example/HIDDEN") }}"',
        '{{ env("URL") or "\'https://h.example/HIDDEN\'" }}',
        '<<EOT\n{{ env("HOST") ~ "/HIDDEN" }}\nEOT',
    ],
)
def test_what_an_expression_holds_is_hidden(written: str) -> None:
    for text in (text_of(url=written), text_of(topic=written)):
        assert "HIDDEN" not in shown(text)


@pytest.mark.parametrize(
    "written",
    [
        '"{{ env("HOST", "") ~ "?code=" ~ "HIDDEN" }}"',
        '"{{ env("HOST") }}/a?code=HIDDEN"',
        '"{{ env("HOST") }}{{ env("QUERY", "?code=HIDDEN") }}"',
    ],
)
def test_of_other_addresses_the_query_is_hidden_in_an_expression(written: str) -> None:
    assert "HIDDEN" not in shown(text_of(urls=written))


def test_what_holds_no_key_is_shown() -> None:
    text = text_of(
        '"{{ env("U", "https://h.example/HIDDEN") }}"', '"{{ env("H", "https://one") ~ ":1" }}"'.replace("https://", "")
    )
    seen = shown(text.replace('"x"', '"{{ env("TEAM", "team") }}.{table}"'))
    assert 'url  = "{{ env("U", "https://h.example/***") }}"' in seen
    assert 'urls = ["{{ env("H", "one") ~ ":1" }}"]' in seen
    assert 'topic = "{{ env("TEAM", "team") }}.{table}"' in seen


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('# url = "https://h.example/services/HIDDEN"', '# url = "https://h.example/***"'),
        ("// before: https://h.example/services/HIDDEN, yes", "// before: https://h.example/*** yes"),
        ("/* https://h.example:8443?HIDDEN */", "/* https://h.example:8443?*** */"),
        ("/* https://h.example/HIDDEN*/", "/* https://h.example/****/"),
        ("# nats://HIDDEN@h.example", "# nats://***@h.example"),
        ("# https://h.example/HIDDEN@x/HIDDEN", "# https://***@x/***"),
        ('# url = "https://h.example/{{ env("K", "HIDDEN") }}HIDDEN"', '# url = "https://h.example/***"'),
        ('# url = "{{ env("HOST", "") ~ "/HIDDEN" }}"', '# url = "***'),
        ('# url = "{{ env("HOST") }}/HIDDEN"', '# url = "{{ env("HOST") }}/***"'),
        ('# topic = "/HIDDEN"', '# topic = "***"'),
        ("{# https://h.example/HIDDEN #}", "{# https://h.example/*** #}"),
        ("# https://h.example, and https://h.example/HIDDEN", "# https://h.example, and https://h.example/***"),
    ],
)
def test_of_an_address_in_a_comment_the_host_is_shown(written: str, expected: str) -> None:
    seen = shown(text_of().replace("# first", written))
    assert f"  {expected}\n" in seen
    assert "HIDDEN" not in seen
    if written.startswith("#"):
        seen = shown(text_of().replace(f"{HOST}\n", f"{HOST} {written}\n", 1))
        assert f"{HOST} {expected}\n" in seen


piece = st.sampled_from(
    [
        "://",
        "a",
        "B:",
        "@",
        "/",
        "?",
        "#",
        ";",
        " ",
        "Password=",
        "key: ",
        "token ",
        "sig=",
        "https://h",
        "'",
        '{{ env("X", "/k") }}',
    ]
)
words = st.lists(piece, max_size=8).map("".join)


@given(words, words, words)
@settings(max_examples=80, deadline=None)
def test_no_character_that_a_rule_hides_is_shown(url: str, urls: str, comment: str) -> None:
    text = text_of(f'"{url}"', f'"{urls}"').replace("# first", f"# {comment}")
    document = Draft(text, "x").document
    hidden = {at for span in secrets.literal_secrets(text, document) for at in range(*span)}
    masked, position = secrets.masked(text, document), 0
    kept = "".join(each if at not in hidden else "\0" for at, each in enumerate(text))
    for part in filter(None, kept.split("\0")):  # nothing else than what no rule hides, in its order
        found = masked.index(part, position)
        assert not masked[position:found].strip('"*\n')
        position = found + len(part)
    assert not masked[position:].strip('"*\n')

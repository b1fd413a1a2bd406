"""What would clean recordings; there are none."""

from __future__ import annotations


def _nothing(**_: object) -> None:
    pass


add_remove_header_sanitizer = add_general_regex_sanitizer = add_oauth_response_sanitizer = _nothing

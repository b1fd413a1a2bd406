"""Which of the SDK's own tests run when: a short form in every run of the tests, everything else in the long one.

Left out of both are tests that ask no service: of the SDK's own parsing and state machines (`unittests`, batch sizes, tracing).
"""

from __future__ import annotations

from typing import Final

SHORT: Final = (
    ("mgmt_tests",),
    (
        "test_message.py::TestServiceBusMessageBackcompat",
        "test_list_sessions.py::TestServiceBusListSessions",
        "-k", "not updated_after",
    ),
    (
        "test_queues.py",
        "-k",
        " or ".join((
            "browse_messages_client", "browse_empty_messages", "fail_send_messages", "message_batch_large",
            "amqp_over_websocket", "broken_receiver_link",
        )),
    ),
    (
        "test_sessions.py",
        "test_topic.py",
        "test_sb_client.py",
        "-k",
        " or ".join((
            "handler_peeklock_abandon", "browse_messages_with_receiver", "partially_invalid_autolockrenew_mode",
            "non_session_send_to_session_queue", "send_basic", "writeonly_credentials", "with_ssl_context",
            "client_credential", "incorrect_queue_conn_str",
        )),
    ),
)  # fmt: skip
"""Arguments of pytest, a process each: those that need a few seconds each."""

_MINUTES: Final = "keep_conn_alive or large_messages_w_sleep"
"""These sleep for more than five minutes each, by design."""


def _parts(files: tuple[str, ...], *keywords: str) -> tuple[tuple[str, ...], ...]:
    """A process for each keyword, for what it names and no keyword before it, and one for the rest; none for what sleeps for minutes."""
    taken, found = _MINUTES, []
    for keyword in keywords:
        found.append((*files, "-k", f"({keyword}) and not ({taken})"))
        taken += f" or {keyword}"
    return (*found, (*files, "-k", f"not ({taken})"))


_OF_QUEUES: Final = ("cancel or expiry or github", "schedule", "servicebus_client", "conn_str")
_OF_SESSIONS: Final = ("cancel or expiry", "schedule", "servicebus_client")

LONG: Final = (
    *_parts(("test_queues.py",), *_OF_QUEUES),
    *_parts(("async_tests/test_queues_async.py",), *_OF_QUEUES),
    *_parts(("test_sessions.py", "test_list_sessions.py"), *_OF_SESSIONS),
    *_parts(("async_tests/test_sessions_async.py", "async_tests/test_list_sessions_async.py"), *_OF_SESSIONS),
    *_parts(("test_subscriptions.py", "test_topic.py", "test_sb_client.py")),
    *_parts((
        "async_tests/test_topic_async.py", "async_tests/test_subscriptions_async.py", "async_tests/test_sb_client_async.py",
    )),
)  # fmt: skip
"""The same; they sleep more than they work, a quarter of an hour in all."""

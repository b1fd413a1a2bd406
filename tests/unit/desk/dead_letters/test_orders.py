"""What an order for dead letters may say, before anything is asked."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from desk.documents.messages import DeadLetterOrder, MessageFilter


@pytest.mark.parametrize("number", [-1, 2**63, 10**30])
def test_a_number_that_no_message_can_have_is_refused(number: int) -> None:
    with pytest.raises(ValidationError, match="sequences"):
        DeadLetterOrder(entity="queue", sequences=[number])
    assert DeadLetterOrder(entity="queue", sequences=[0, 2**63 - 1]).sequences == [0, 2**63 - 1]


def test_the_audit_log_keeps_of_a_text_its_length_alone() -> None:
    written = MessageFilter(text="Ada Lovelace", reason="Refused").written()
    assert written == {"text": "12 characters", "reason": "Refused"}

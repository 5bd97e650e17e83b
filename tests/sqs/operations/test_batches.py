"""What the batches have in common."""

from __future__ import annotations

import pytest

from mq_sqs.faults import BATCH_ENTRY_IDS_NOT_DISTINCT, SQSError
from mq_sqs.operations.batches import check_entries


def test_of_ids_that_are_repeated_the_one_whose_repetition_comes_first_is_named() -> None:
    entries = [{"Id": each} for each in ("a", "b", "b", "a")]

    with pytest.raises(SQSError, match="Id b repeated") as refused:
        check_entries(entries, "SendMessageBatch")
    assert refused.value.fault is BATCH_ENTRY_IDS_NOT_DISTINCT

"""Where the attributes of messages meet the store: its drafts, and what it delivers."""

from __future__ import annotations

from collections.abc import Mapping

from mq.store.lease import Received
from mq.store.publish import Draft
from mq_sqs.faults import UNSUPPORTED_OPERATION, SQSError
from mq_sqs.message_attributes import Attributes, from_properties, to_properties


def draft_with(draft: Draft, attributes: Attributes, system: Attributes) -> Draft:
    """The draft with the attributes. Raises SQSError while the store keeps none."""
    if to_properties(attributes, system):
        raise SQSError(
            UNSUPPORTED_OPERATION,
            "This version of MQ keeps no attributes of messages; send the body alone.",
        )
    return draft


def attributes_in(received: Received) -> tuple[Attributes, Mapping[str, str]]:
    """The attributes, and the values of the system attributes."""
    return from_properties({})

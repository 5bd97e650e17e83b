"""The model of the gateway beside Amazon's in botocore, and what the documents say is missing."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.model import ListShape, MapShape, ServiceModel, Shape, StructureShape
from botocore.session import get_session

from mq_sqs import faults
from mq_sqs.faults import SqsFault
from mq_sqs.model import OPERATIONS, ListOf, MapOf, Structure
from mq_sqs.operations import HANDLERS, REFUSED
from mq_sqs.queues import queue_attributes
from tests.support.sources import read_table

NUMBERS = {"integer", "long"}


@pytest.fixture(scope="module")
def amazon() -> ServiceModel:
    return get_session().get_service_model("sqs")


def plain(shape: Any) -> Any:
    """A shape of the gateway's, comparable with one of Amazon's."""
    if isinstance(shape, ListOf):
        return [plain(shape.item)]
    if isinstance(shape, MapOf):
        return {"*": plain(shape.value)}
    if isinstance(shape, Structure):
        members = {name: plain(each) for name, each in shape.members.items()}
        return members, set(shape.required)
    return shape.value


def plain_of_amazon(shape: Shape | None) -> Any:
    if isinstance(shape, ListShape):
        return [plain_of_amazon(shape.member)]
    if isinstance(shape, MapShape):
        return {"*": plain_of_amazon(shape.value)}
    if isinstance(shape, StructureShape):
        members = {name: plain_of_amazon(each) for name, each in shape.members.items()}
        return members, set(shape.required_members)
    assert shape is not None
    return "integer" if shape.type_name in NUMBERS else shape.type_name


def test_every_operation_takes_and_gives_what_amazons_does(amazon: ServiceModel) -> None:
    assert OPERATIONS.keys() == set(amazon.operation_names)
    for name, operation in OPERATIONS.items():
        theirs = amazon.operation_model(name)
        assert plain(operation.takes) == plain_of_amazon(theirs.input_shape), name
        if operation.gives is None:
            assert theirs.output_shape is None, name
        else:
            assert plain(operation.gives)[0] == plain_of_amazon(theirs.output_shape)[0], name


def test_every_operation_is_done_or_refused_and_the_document_lists_the_refused_ones() -> None:
    listed = {row[0] for row in read_table("docs/sqs.md", "### Operations")}

    assert not HANDLERS.keys() & REFUSED.keys()
    assert HANDLERS.keys() | REFUSED.keys() == OPERATIONS.keys()
    assert listed == set(REFUSED)


def test_the_document_lists_the_errors_of_the_model_that_are_never_sent(
    amazon: ServiceModel,
) -> None:
    theirs = {
        shape.name
        for name in amazon.operation_names
        for shape in amazon.operation_model(name).error_shapes
    }
    ours = {value.name for value in vars(faults).values() if isinstance(value, SqsFault)}
    listed = {
        name for row in read_table("docs/sqs.md", "### Errors") for name in row[0].split(", ")
    }

    assert listed == theirs - ours


def test_every_attribute_of_a_queue_is_known(amazon: ServiceModel) -> None:
    shape = amazon.shape_for("QueueAttributeName")

    assert {"All", *queue_attributes.KNOWN} == set(shape.enum)


def test_an_error_has_the_code_that_amazon_gives_it(amazon: ServiceModel) -> None:
    theirs = {
        shape.name: shape.metadata["error"]["code"]
        for name in amazon.operation_names
        for shape in amazon.operation_model(name).error_shapes
        if "error" in shape.metadata
    }
    ours = {
        value.name: value.code for value in vars(faults).values() if isinstance(value, SqsFault)
    }

    assert {name: ours[name] for name in theirs.keys() & ours.keys()} == {
        name: code for name, code in theirs.items() if name in ours
    }

"""mq/web/openapi.json describes the routes that there are, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mq.web import problems
from mq.web.problems import PROBLEMS, TYPE_PREFIX, ProblemType
from mq.web.routes import RESOURCES
from tests.support.sources import REPOSITORY, read_table

DOCUMENT: dict[str, Any] = json.loads((REPOSITORY / "mq/web/openapi.json").read_text())
METHODS = {"get", "head", "put", "post", "delete", "patch", "options", "trace"}
OPERATIONS = [
    (path, method)
    for path, item in DOCUMENT["paths"].items()
    for method in item
    if method in METHODS
]


def resolve(node: Any) -> Any:
    """What a reference stands for. Raises KeyError if it leads nowhere."""
    if "$ref" not in node:
        return node
    found: Any = DOCUMENT
    for name in node["$ref"].removeprefix("#/").split("/"):
        found = found[name]
    return resolve(found)


def references_in(node: Any) -> Iterator[dict[str, Any]]:
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    if isinstance(node, dict) and "$ref" in node:
        yield node
    for child in children:
        yield from references_in(child)


def parameters_of(path: str, method: str, place: str) -> set[str]:
    item = DOCUMENT["paths"][path]
    found = [*item.get("parameters", ()), *item[method].get("parameters", ())]
    return {each["name"] for each in map(resolve, found) if each["in"] == place}


def test_every_route_is_described_and_no_other() -> None:
    assert set(OPERATIONS) == {
        (path, method.lower()) for path, resource in RESOURCES.items() for method in resource
    }


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_an_operation_takes_the_parameters_of_its_route(path: str, method: str) -> None:
    route = RESOURCES[path][method.upper()]

    assert parameters_of(path, method, "query") == (route.parameters or frozenset())
    assert parameters_of(path, method, "path") == {
        segment.strip("{}") for segment in path.split("/") if segment.startswith("{")
    }


@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_an_operation_says_its_scopes(path: str, method: str) -> None:
    route = RESOURCES[path][method.upper()]
    text = DOCUMENT["paths"][path][method]["description"]

    assert f"the scope {route.scope}, where" in text
    assert all(f"with {name} that is {scope}" in text for name, scope in route.scopes.items())


def test_an_operation_has_the_statuses_that_the_protocol_lists() -> None:
    """Each operation has 401 and 403 as well, which come with tokens, and 421 for other names."""
    for name, _, successes, others in read_table("docs/protocol.md", "## Endpoints"):
        method, path = name[1:].partition("]")[0].split()
        described = set(DOCUMENT["paths"][path][method.lower()]["responses"])

        listed = {*f"{successes}, {others}".split(", "), "401", "403", "421"}
        assert described == listed, name


def test_every_reference_leads_somewhere_and_every_component_is_used() -> None:
    references = list(references_in(DOCUMENT))

    assert [each for each in references if resolve(each) is None] == []
    used = {each["$ref"] for each in references}
    components = {
        f"#/components/{kind}/{name}"
        for kind, found in DOCUMENT["components"].items()
        if kind != "securitySchemes"
        for name in found
    }
    assert components == used


def test_the_problem_types_are_those_of_the_code() -> None:
    """Those of the admin listener, which it does not describe, left out."""
    others = [value for value in vars(problems).values() if isinstance(value, ProblemType)]
    others.remove(problems.READ_ONLY)
    listed = resolve({"$ref": "#/components/schemas/Problem"})["properties"]["type"]["enum"]

    assert sorted(listed) == sorted({TYPE_PREFIX + p.slug for p in (*PROBLEMS.values(), *others)})


def test_operation_ids_are_unique() -> None:
    ids = [DOCUMENT["paths"][path][method]["operationId"] for path, method in OPERATIONS]

    assert len(set(ids)) == len(ids)
    assert DOCUMENT["openapi"].startswith("3.1.")

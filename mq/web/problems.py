"""Every error as application/problem+json (RFC 9457): one table from exception to status.

`type` is stable and never resolved; `detail` names the thing and the way out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from aiohttp import web

from mq import errors

TYPE_PREFIX = "urn:mq:problem:"


class Problem(NamedTuple):
    status: int
    slug: str
    title: str


BAD_HTTP = Problem(400, "bad-http", "The request is not HTTP as this server reads it")
UNKNOWN_PATH = Problem(404, "unknown-path", "There is nothing at this path")
REQUEST_TIMEOUT = Problem(408, "request-timeout", "The request came too slowly")
METHOD_NOT_ALLOWED = Problem(405, "method-not-allowed", "This path does not take this method")
DEFECT = Problem(500, "defect", "The server has a defect")

PROBLEMS: Mapping[type[errors.MQError], Problem] = {
    errors.InvalidName: Problem(400, "invalid-name", "Not a name of a queue or message"),
    errors.InvalidRequest: Problem(400, "invalid-request", "A parameter or header is wrong"),
    errors.InvalidBatch: Problem(400, "invalid-batch", "A line of the batch is wrong"),
    errors.RequestTimeout: REQUEST_TIMEOUT,
    errors.BodyUnreadable: Problem(400, "body-unreadable", "The body did not arrive whole"),
    errors.Unauthorized: Problem(401, "unauthorized", "A token is needed"),
    errors.Forbidden: Problem(403, "forbidden", "The token is not for this"),
    errors.QueueNotFound: Problem(404, "queue-not-found", "There is no such queue"),
    errors.MessageNotFound: Problem(404, "message-not-found", "There is no such message"),
    errors.IdTaken: Problem(409, "id-taken", "That id stands for another body"),
    errors.LeaseMismatch: Problem(412, "lease-mismatch", "That lease is not the current one"),
    errors.BodyTooLarge: Problem(413, "body-too-large", "The body is over the limit"),
    errors.UnsupportedMediaType: Problem(
        415, "unsupported-media-type", "The body is of another type than is asked for"
    ),
    errors.ExpectationFailed: Problem(
        417, "expectation-failed", "Only 100-continue can be expected"
    ),
    errors.StoreUnavailable: Problem(503, "unavailable", "The store cannot do this now"),
}


def problem_document(problem: Problem, detail: str) -> dict[str, object]:
    return {
        "type": TYPE_PREFIX + problem.slug,
        "title": problem.title,
        "status": problem.status,
        "detail": detail,
    }


def problem_response(
    problem: Problem, detail: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.Response(
        status=problem.status,
        body=json.dumps(problem_document(problem, detail)).encode() + b"\n",
        content_type="application/problem+json",
        headers=headers,
    )


def error_response(error: errors.MQError) -> web.Response:
    """What a client is told of an error of ours."""
    headers = {}
    if isinstance(error, errors.StoreUnavailable):
        headers["Retry-After"] = str(error.retry_after_seconds)
    if isinstance(error, errors.Unauthorized | errors.Forbidden):
        headers["WWW-Authenticate"] = error.challenge
    return problem_response(PROBLEMS[type(error)], str(error), headers)

"""Errors as application/problem+json (RFC 9457): one table from exception to status.

`type` is stable and never resolved; `detail` names the thing and the way out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from email.utils import formatdate
from http import HTTPStatus
from typing import NamedTuple

from aiohttp import web

from mq import errors
from mq.lines.ndjson import MEDIA_TYPE
from mq.names import MessageId
from mq.web.answers import OUR_HEADERS, Answer

TYPE_PREFIX = "urn:mq:problem:"


class ProblemType(NamedTuple):
    status: int
    slug: str
    title: str


BAD_HTTP = ProblemType(400, "bad-http", "The server cannot read the request as HTTP")
UNKNOWN_PATH = ProblemType(404, "unknown-path", "There is nothing at this path")
REQUEST_TIMEOUT = ProblemType(408, "request-timeout", "The request came too slowly")
METHOD_NOT_ALLOWED = ProblemType(405, "method-not-allowed", "This path does not take this method")
READ_ONLY = ProblemType(403, "read-only", "This listener is read-only")
DEFECT = ProblemType(500, "defect", "The server has a defect")

PROBLEMS: Mapping[type[errors.MQError], ProblemType] = {
    errors.InvalidName: ProblemType(400, "invalid-name", "Not a valid queue name or message id"),
    errors.InvalidRequest: ProblemType(400, "invalid-request", "A parameter or header is wrong"),
    errors.InvalidBatch: ProblemType(400, "invalid-batch", "A line of the batch is wrong"),
    errors.RequestTimeout: REQUEST_TIMEOUT,
    errors.BodyUnreadable: ProblemType(400, "body-unreadable", "The body did not arrive whole"),
    errors.Unauthorized: ProblemType(401, "unauthorized", "A token is needed"),
    errors.Forbidden: ProblemType(403, "forbidden", "The token does not allow this"),
    errors.ForeignPage: ProblemType(403, "foreign-page", "A web page of another site sent this"),
    errors.QueueNotFound: ProblemType(404, "queue-not-found", "There is no such queue"),
    errors.MessageNotFound: ProblemType(404, "message-not-found", "There is no such message"),
    errors.IdTaken: ProblemType(409, "id-taken", "That id was used for another message"),
    errors.TooOld: ProblemType(409, "too-old", "The queue would remove it at once"),
    errors.QueueIsFifo: ProblemType(
        409, "fifo-queue", "Its messages are sent and received through the gateway for SQS alone"
    ),
    errors.LeaseMismatch: ProblemType(412, "lease-mismatch", "That lease is not the current one"),
    errors.BodyTooLarge: ProblemType(413, "body-too-large", "The body is over the limit"),
    errors.UnsupportedMediaType: ProblemType(
        415, "unsupported-media-type", "The body needs another media type"
    ),
    errors.ExpectationFailed: ProblemType(
        417, "expectation-failed", "Expect can only be 100-continue"
    ),
    errors.UnknownHost: ProblemType(421, "unknown-host", "This server does not have that name"),
    errors.PropertiesTooLarge: ProblemType(
        431, "properties-too-large", "The properties are over the limit"
    ),
    errors.PropertiesUnsupported: ProblemType(
        501, "properties-unsupported", "The server's file system keeps no properties"
    ),
    errors.StoreUnavailable: ProblemType(503, "unavailable", "The store cannot do this now"),
}


def problem_document(problem: ProblemType, detail: str) -> dict[str, object]:
    return {
        "type": TYPE_PREFIX + problem.slug,
        "title": problem.title,
        "status": problem.status,
        "detail": detail,
    }


def problem_response(
    problem: ProblemType, detail: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.Response(
        status=problem.status,
        body=json.dumps(problem_document(problem, detail)).encode() + b"\n",
        content_type="application/problem+json",
        headers=headers,
    )


def error_response(error: errors.MQError) -> web.Response:
    """Return the answer for one of MQ's errors."""
    headers = {}
    if isinstance(error, errors.StoreUnavailable):
        headers["Retry-After"] = str(error.retry_after_seconds)
    if isinstance(error, errors.Unauthorized | errors.Forbidden):
        headers["WWW-Authenticate"] = error.challenge
    return problem_response(PROBLEMS[type(error)], str(error), headers)


def answer_outcomes(
    ids: Iterable[MessageId], outcomes: Iterable[errors.MQError | None], success: int
) -> Answer:
    """Answer 207, with a line for each message: the status `success`, or what is wrong with it."""
    lines = []
    for message_id, error in zip(ids, outcomes, strict=True):
        outcome: dict[str, object] = {"status": success}
        if error is not None:
            outcome = problem_document(PROBLEMS[type(error)], str(error))
        lines.append(json.dumps({"id": message_id} | outcome).encode() + b"\n")
    return Answer(207, {"Content-Type": MEDIA_TYPE}, b"".join(lines))


def raw_answer(problem: ProblemType, detail: str, headers: Mapping[str, str] = {}) -> bytes:
    """Return an answer for a connection without a request. The connection is closed after it."""
    body = json.dumps(problem_document(problem, detail)).encode() + b"\n"
    head = (
        f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}",
        "Content-Type: application/problem+json",
        f"Content-Length: {len(body)}",
        f"Date: {formatdate(usegmt=True)}",
        *(f"{name}: {value}" for name, value in {**headers, **OUR_HEADERS}.items()),
        "Connection: close",
    )
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body

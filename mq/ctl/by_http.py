"""The way over HTTP: the six endpoints, with the standard library alone."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing
from http.client import HTTPException, HTTPResponse
from typing import NoReturn

from mq.config import (
    CHUNK_BYTES,
    CTL_TIMEOUT_SECONDS,
    MAX_FETCH_MESSAGES,
    SMALL_BODY_BYTES,
)
from mq.connection import connection_to
from mq.ctl.access import Counts, Message, Readable
from mq.ctl.answers import (
    counts_of,
    header_of,
    lines_of,
    message_in,
    message_of,
    not_of_mq,
    whole,
)
from mq.ctl.connect import Credentials, address_of, admin_url
from mq.errors import CommandFailed, ExitCode
from mq.names import MessageId, QueueName
from mq.ndjson import MEDIA_TYPE

_REDRIVE_SECONDS = 600.0
"""How long a dead letter is hidden while it is published anew."""

_EXIT_CODES = {404: ExitCode.NOT_FOUND, 503: ExitCode.TRY_AGAIN}


class HttpAccess:
    """The queues of the server at `url`; `mq.ctl.access.Access` says what the methods do."""

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        admin: str | None = None,
        flag: str = "--url",
    ) -> None:
        """`admin` is where the server has its admin listener, as HOST:PORT; by default at the
        usual port of the same host. `flag` is what chose `url`."""
        self._url = url.rstrip("/")
        self._credentials = credentials
        self._admin = admin
        self._flag = flag
        address = address_of(self._url, credentials.cacert)
        self._connection = connection_to(address, CTL_TIMEOUT_SECONDS)
        self._last_answer: HTTPResponse | None = None
        self._prefix = address.prefix

    def close(self) -> None:
        self._connection.close()

    def list_queues(self) -> list[Counts]:
        url = admin_url(self._url, self._admin)
        with closing(HttpAccess(url, self._credentials, flag="--admin")) as admin:
            answer = admin._ask("GET", "/queues")
            try:
                return [counts_of(document) for document in json.loads(whole(answer))]
            except (ValueError, LookupError, TypeError):
                not_of_mq("lists no queues")

    def describe_queue(self, queue: QueueName) -> Counts:
        answer = self._ask("GET", f"/{queue}")
        try:
            return counts_of(json.loads(whole(answer)))
        except (ValueError, LookupError, TypeError):
            not_of_mq("describes no queue")

    def create_queue(self, queue: QueueName) -> bool:
        return self._ask("PUT", f"/{queue}").status == 201

    def delete_queue(self, queue: QueueName) -> None:
        self._ask("DELETE", f"/{queue}")

    def publish(
        self,
        queue: QueueName,
        body: Readable,
        content_type: str | None,
        message_id: MessageId | None = None,
        delay_seconds: float = 0.0,
    ) -> MessageId:
        first = body.read(SMALL_BODY_BYTES + 1)
        given = {"Content-Type": content_type, "X-Message-Id": message_id}
        headers = {name: value for name, value in given.items() if value is not None}
        delay = f"?delay={delay_seconds:f}" if delay_seconds else ""
        # An iterator is sent in chunks.
        data = first if len(first) <= SMALL_BODY_BYTES else _chunks(first, body)
        answer = self._ask("POST", f"/{queue}/messages{delay}", data, headers)
        whole(answer)
        return MessageId(header_of(answer, "X-Message-Id"))

    def publish_batch(self, queue: QueueName, lines: bytes) -> list[MessageId]:
        headers = {"Content-Type": MEDIA_TYPE}
        answer = self._ask("POST", f"/{queue}/messages?batch", lines, headers)
        try:
            return [MessageId(json.loads(line)["id"]) for line in whole(answer).splitlines()]
        except (ValueError, LookupError, TypeError):
            not_of_mq("has no ids")

    def receive(
        self, queue: QueueName, visibility_seconds: float | None, wait_seconds: float = 0.0
    ) -> Message | None:
        asked = {"visibility": visibility_seconds, "wait": wait_seconds or None}
        query = "&".join(f"{name}={value:f}" for name, value in asked.items() if value is not None)
        self._be_patient(CTL_TIMEOUT_SECONDS + wait_seconds)
        answer = self._ask("GET", f"/{queue}/messages?{query}")
        if answer.status == 204:
            return None
        return message_of(answer)

    def touch(
        self, queue: QueueName, message_id: MessageId, seconds: float, lease: int | None
    ) -> str:
        target = f"/{queue}/messages?id={message_id}&visibility={seconds:f}"
        answer = self._ask("GET", target, headers={"If-Match": _etag(lease) or "*"})
        # The answer carries the body, which nobody asked for here.
        self._connection.close()
        return header_of(answer, "X-Visible-At")

    def release(self, queue: QueueName, message_id: MessageId, lease: int | None) -> None:
        headers = {} if lease is None else {"If-Match": _etag(lease)}
        self._ask("GET", f"/{queue}/messages?id={message_id}&visibility=0", headers=headers)

    def redrive(self, queue: QueueName, dead: QueueName) -> int:
        """Each is published anew, with an id made of its old one: a second try after one that
        broke off makes no second message."""
        self.describe_queue(queue)
        total = self.describe_queue(dead).ready
        moved = 0
        with closing(HttpAccess(self._url, self._credentials)) as sender:
            while moved < total and (found := self.receive(dead, _REDRIVE_SECONDS)) is not None:
                origin = f"{dead}:{found.message_id}:{found.published_at}"
                own_id = MessageId(str(uuid.uuid5(uuid.NAMESPACE_URL, origin)))
                sender.publish(queue, found.body, found.content_type, own_id)
                lease = None if found.lease is None else int(found.lease, 16)
                self.remove(dead, MessageId(found.message_id), lease)
                moved += 1
        return moved

    def remove(self, queue: QueueName, message_id: MessageId, lease: int | None) -> None:
        headers = {} if lease is None else {"If-Match": _etag(lease)}
        self._ask("DELETE", f"/{queue}/messages/{message_id}", headers=headers)

    def peek(self, queue: QueueName, limit: int) -> Iterator[Message]:
        shown, behind = 0, ""
        while shown < limit:
            most, shown_before = min(limit - shown, MAX_FETCH_MESSAGES), shown
            answer = self._ask("GET", f"/{queue}/messages?peek&max={most}{behind}")
            for line in lines_of(answer):
                message = message_in(line)
                yield message
                shown, behind = shown + 1, f"&after={message.message_id}"
            if shown == shown_before:
                break

    def peek_at(self, queue: QueueName, message_id: MessageId) -> Message:
        return message_of(self._ask("GET", f"/{queue}/messages?peek&id={message_id}"))

    def _be_patient(self, seconds: float) -> None:
        """On the connection that is there, or the next one."""
        self._connection.timeout = seconds
        if self._connection.sock is not None:
            self._connection.sock.settimeout(seconds)

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | Iterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> HTTPResponse:
        """Send a request; returns the answer if it is a success. Raises CommandFailed."""
        try:
            if self._last_answer is not None:
                # The connection is free once that is read to its end.
                self._last_answer.read()
            try:
                sent = {**self._credentials.headers, **(headers or {})}
                self._connection.request(method, self._prefix + path, body, sent)
            except (BrokenPipeError, ConnectionResetError):
                # Perhaps it has answered before the end of the body, and closed.
                pass
            self._last_answer = answer = self._connection.getresponse()
            if not 200 <= answer.status < 300:
                self._refuse(answer)
        except (OSError, HTTPException) as error:
            raise CommandFailed(
                ExitCode.UNAVAILABLE,
                f"{self._url} does not answer: {_why(error)}; start mq there, name another "
                f"{self._flag}, or work on the folders with --root",
            ) from error
        return answer

    def _refuse(self, answer: HTTPResponse) -> NoReturn:
        """Raise what the server says."""
        try:
            detail = str(json.loads(answer.read(CHUNK_BYTES))["detail"])
        except (ValueError, LookupError, TypeError):
            not_of_mq(f"is {answer.status} {answer.reason} without a reason")
        if answer.status == 401:
            detail += "; mqctl takes it from --token-file"
        other = ExitCode.REFUSED if answer.status < 500 else ExitCode.UNAVAILABLE
        raise CommandFailed(_EXIT_CODES.get(answer.status, other), detail)


def _chunks(first: bytes, rest: Readable) -> Iterator[bytes]:
    chunk = first
    while chunk:
        yield chunk
        chunk = rest.read(CHUNK_BYTES)


def _etag(lease: int | None) -> str:
    return "" if lease is None else f'"{lease:016x}"'


def _why(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error or type(error).__name__)

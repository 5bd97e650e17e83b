"""Requests that botocore signs, as they are on the wire."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from multidict import CIMultiDict

TOKEN = "Hj0v/Vt9xkq3mP2sYw8LrBg+="
HOST = "http://localhost:9324"
SEND = {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}
KEY = Credentials("till", TOKEN)


class Sent(NamedTuple):
    """A request as it is on the wire."""

    method: str
    target: str
    headers: CIMultiDict[str]
    body: bytes = b""

    def with_headers(self, **changes: str | None) -> Sent:
        """Return the request with other headers. Underlines in the names are hyphens; None takes a
        header away."""
        headers = self.headers.copy()
        for name, value in changes.items():
            headers.pop(name.replace("_", "-"), None)
            if value is not None:
                headers[name.replace("_", "-")] = value
        return self._replace(headers=headers)


def sign(
    method: str = "POST",
    target: str = "/",
    headers: dict[str, str] | None = None,
    body: bytes = b"{}",
    *,
    by: Any = SigV4Auth,
    credentials: Credentials = KEY,
    scope: tuple[str, str] = ("sqs", "us-east-1"),
    **more: Any,
) -> Sent:
    """Return a request signed by botocore; `more` are for AWSRequest."""
    request = AWSRequest(method, HOST + target, dict(headers or SEND), body, **more)
    by(credentials, *scope).add_auth(request)
    prepared = request.prepare()
    url = urlsplit(prepared.url)
    shown = CIMultiDict({"Host": "localhost:9324"})
    for name, value in prepared.headers.items():
        shown[name] = value.decode() if isinstance(value, bytes) else value
    return Sent(method, url.path + (f"?{url.query}" if url.query else ""), shown, body)


def presigned(target: str = "/0/q?Action=ReceiveMessage&Version=2012-11-05") -> Sent:
    return sign("GET", target, {"Accept": "*"}, b"", by=SigV4QueryAuth)

"""`Exchange`: a request on its way, and its answer, read whole or piece by piece."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, IncompleteRead
from typing import Self

from mq.client.connection import SLOWEST_BYTES_PER_SECOND, ServerAddress, has_closed_unheard
from mq.client.problems import (
    cut_off,
    error_of,
    no_answer,
    not_http,
    require_end,
    too_large,
)
from mq.client.wire import USER_AGENT, Request, ServerAnswer


class Exchange:
    """One request over a connection of its own, for one thread. It must be closed.

    The connection serves another request if the answer was read to its end; otherwise it is closed.
    The methods that read raise NoAnswer or UnexpectedAnswer.
    """

    def __init__(
        self,
        connection: HTTPConnection,
        request: Request,
        address: ServerAddress,
        give_back: Callable[[HTTPConnection], None],
    ) -> None:
        self._connection = connection
        self._request = request
        self._address = address
        self._give_back = give_back
        self._is_kept = connection.sock is not None
        self._response: HTTPResponse | None = None
        self._head: ServerAnswer | None = None
        self._is_closed = False

    def send(self, chunks: Iterator[bytes] | None = None) -> None:
        """Send the request, and `chunks` in place of its body. Raises what `chunks` raises."""
        request, connection = self._request, self._connection
        upload_seconds = len(request.body) / SLOWEST_BYTES_PER_SECOND
        with self._failures():
            connection.sock.settimeout(request.patience_seconds + upload_seconds)
            # The server may have answered before the end of the body, and closed.
            with suppress(BrokenPipeError, ConnectionResetError):
                connection.request(
                    request.method,
                    self._address.prefix + request.target,
                    chunks or request.body or None,
                    {"User-Agent": USER_AGENT, **request.headers},
                )
            connection.sock.settimeout(request.patience_seconds)

    def head(self) -> ServerAnswer:
        """Return the answer without its body. Raises UnexpectedAnswer too for a success whose end
        could not be told."""
        if self._head is None:
            with self._failures():
                response = self._connection.getresponse()
            headers = {name.lower(): value for name, value in response.headers.items()}
            self._response = response
            head = ServerAnswer(response.status, response.reason, headers, b"", time.monotonic())
            if head.status in self._request.done:
                require_end(head)
            self._head = head
        return self._head

    def whole(self) -> ServerAnswer:
        """Return the answer with its body, unless the request does not want that."""
        head = self.head()
        assert self._response is not None
        if not self._request.wants_all_of(head.status, self._response.length):
            return head
        with self._failures():
            return head._replace(body=self._response.read())

    def accepted(self) -> ServerAnswer:
        """Return the answer without its body. Raises ClientError if it says that the request was
        not done."""
        if self.head().status not in self._request.done:
            raise error_of(self.whole())
        return self.head()

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes of the body; fewer only at its end, or where it breaks off."""
        self.head()
        assert self._response is not None
        with self._failures():
            return self._response.read(size)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of the body, one after the other."""
        self.head()
        assert self._response is not None
        with self._failures():
            while (line := self._response.readline()).endswith(b"\n"):
                yield line
            if self._response.length:
                raise IncompleteRead(line, self._response.length)
        if line:
            yield line

    def close(self) -> None:
        """Close it. A second call does nothing."""
        if self._is_closed:
            return
        self._is_closed = True
        response = self._response
        is_read = response is not None and (response.isclosed() or response.length == 0)
        if response is not None:
            response.close()  # If the server closes after it, the socket is the response's.
        if not is_read:
            self._connection.close()
        self._give_back(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Drop the connection after a failure: the rest of that answer must not be taken for the
        next one."""
        try:
            yield
        except (OSError, IncompleteRead) as error:
            self._connection.close()
            if self._head is not None:
                raise cut_off(self._address, error) from error
            has_parted = self._is_kept and self._response is None and has_closed_unheard(error)
            raise no_answer(self._address, error, has_parted=has_parted) from error
        except HTTPException as error:
            self._connection.close()
            raise not_http(self._address, error) from error
        except (MemoryError, OverflowError) as error:
            self._connection.close()
            if self._response is None:
                raise
            raise too_large(self._address, error) from error
        except BaseException:
            self._connection.close()
            raise

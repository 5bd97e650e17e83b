"""The connection to a server, the credentials for it, and how `mqctl` reports what it answers."""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import click

from mq.client.blocking.session import Session
from mq.client.connection import ServerAddress, has_closed_unheard, parse_url, reason_of
from mq.client.errors import BodyTooLarge, ClientError, NoAnswer, Problem, UnexpectedAnswer
from mq.client.problems import NO_TYPE, certificate_way_out
from mq.client.token import Token
from mq.command.stdout import printable
from mq.config import CLIENT_TIMEOUT_SECONDS, DEFAULT_ADMIN
from mq.ctl.ways.access import in_own_words
from mq.errors import CommandFailed, ExitCode

_UNIX = "unix:"

_OF_A_PROXY = {502, 503, 504}
"""What a proxy answers while it gets no answer from the server behind it. A server of MQ gives a
reason with its 503."""

_VARIABLES = {"--url": "MQ_URL", "--admin": "MQCTL_ADMIN"}
_EXIT_CODES = {404: ExitCode.NOT_FOUND, 501: ExitCode.REFUSED, 503: ExitCode.TRY_AGAIN}


class ClientCredentials(NamedTuple):
    """What shows a server who asks: a token, or a file that holds it. `cacert` has the authorities
    that may sign the server's certificate; None means those of the system."""

    token: str | None = None
    token_file: Path | None = None
    cacert: Path | None = None


def open_session(
    url: str,
    credentials: ClientCredentials,
    retry_seconds: float = 0.0,
    timeout_seconds: float = CLIENT_TIMEOUT_SECONDS,
) -> Session:
    """Open a session, which sends nothing yet. Without `retry_seconds` it sends each request only
    once: the person at the terminal sees the outcome. Raises CommandFailed."""
    address, token = server_at(url, credentials)
    return Session(address, token, timeout_seconds, retry_seconds)


def server_at(url: str, credentials: ClientCredentials) -> tuple[ServerAddress, Token]:
    """Return where a server is, and the token for it. Raises CommandFailed."""
    address = _address_of(url, credentials.cacert)
    token = _token_for(address, credentials)
    _show_warnings()
    return address, token


def _address_of(url: str, cacert: Path | None) -> ServerAddress:
    try:
        address = parse_url(url, None, cacert)
        if address.socket_path is not None and not address.socket_path.startswith("/"):
            raise ValueError(f"{url!r} is not an absolute socket path; write it like unix:/PATH")
        return address
    except ValueError as error:
        raise CommandFailed(ExitCode.USAGE, str(error)) from None
    except OSError as error:
        raise CommandFailed(
            ExitCode.USAGE, f"certificates {cacert}: {error.strerror or error}; name a file in PEM"
        ) from error


def _token_for(address: ServerAddress, credentials: ClientCredentials) -> Token:
    """Return the token for a server. No error shows what is in its file. The variables of
    `mq.client` do not count for `mqctl`."""
    token, token_file, _ = credentials
    try:
        return Token(token if token_file is None else None, token_file, address, variables={})
    except ValueError as error:
        text = str(error) if token_file is not None else f"MQCTL_TOKEN: {error}"
        raise CommandFailed(ExitCode.USAGE, text) from None
    except OSError as error:
        raise CommandFailed(
            ExitCode.USAGE, f"token file {token_file}: {error.strerror or error}"
        ) from error


class _OnStderr(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        click.echo(printable(f"mqctl: {record.getMessage()}"), err=True)


def _show_warnings() -> None:
    """Show what the client logs, in the words of `mqctl`."""
    log = logging.getLogger("mq.client")
    if not log.handlers:
        log.addHandler(_OnStderr(logging.WARNING))
        log.propagate = False


def admin_url(url: str, admin: str | None, cacert: Path | None) -> str:
    """Return the URL of the admin listener. It speaks TLS if the server does. Beside a unix socket
    it is on this machine, and speaks TLS if there is a certificate to check it by. A URL in `admin`
    says all of that."""
    if admin is not None and "://" in admin:
        return admin
    if url.startswith(_UNIX):
        return f"{'http' if cacert is None else 'https'}://{admin or DEFAULT_ADMIN}"
    parts = urlsplit(url)
    if admin is None:
        admin = str(DEFAULT_ADMIN._replace(host=parts.hostname or ""))
    return f"{parts.scheme}://{admin}"


def failure_of(error: ClientError, url: str, flag: str) -> CommandFailed:
    """Return an error of the client as `mqctl` ends with it; `flag` is the flag that chose
    `url`."""
    problem, cause = error.problem, error.__cause__
    if problem is not None and problem.type != NO_TYPE:
        return _refusal(problem, url, flag)
    if isinstance(error, BodyTooLarge):
        text = "a proxy lets no body of this size pass (413): raise its limit or send a smaller one"
        return CommandFailed(ExitCode.REFUSED, text)
    if problem is not None and problem.status in _OF_A_PROXY:
        text = f"the answer is {problem.status} {problem.title}, from a proxy that gets no answer; "
        text += f"start mq behind it, or name another {flag}"
    elif problem is not None:
        text = f"the answer is {problem.status} {problem.title} without a reason: it is not from a "
        text += f"server of MQ; name another {flag}"
    elif isinstance(error, NoAnswer) and error.is_cut_off:
        text = "the connection was closed in the middle of an answer; what was asked for may "
        text += "be done or not"
    elif isinstance(error, UnexpectedAnswer) and isinstance(cause, ssl.SSLCertVerificationError):
        way_out = certificate_way_out(cause, "give its issuer's certificate as --cacert")
        text = f"{error.fact}; {way_out}, or name another {flag}"
    elif isinstance(cause, Exception):
        text = f"{url} does not answer: {reason_of(cause)}; start mq there, "
        if has_closed_unheard(cause) and url.startswith("http:"):
            text += "write https:// if it speaks TLS, "
        text += f"name another {flag} ({_VARIABLES[flag]}), or work on the folders with --root"
    elif isinstance(error, UnexpectedAnswer):
        text = f"{error.fact}; name another {flag}"
    else:
        text = str(error)
    return CommandFailed(ExitCode.UNAVAILABLE, text)


def _refusal(problem: Problem, url: str, flag: str) -> CommandFailed:
    kind, is_admin = problem.type.rpartition(":")[2], flag == "--admin"
    if kind == "unknown-path" or (is_admin and kind == "queue-not-found"):
        wanted = "an admin listener" if is_admin else "the main port"
        text = f"{url} is a port of MQ, but not {wanted}; name another {flag}"
        path = urlsplit(url).path.rstrip("/")
        if path and not url.startswith(_UNIX):
            text = f"{url} is a port of MQ, but it has nothing at {path}; leave the path out of "
            text += flag
        return CommandFailed(ExitCode.UNAVAILABLE, text)
    other = ExitCode.REFUSED if problem.status < 500 else ExitCode.UNAVAILABLE
    hint = "; mqctl takes it from --token-file or MQCTL_TOKEN" if problem.status == 401 else ""
    return CommandFailed(
        _EXIT_CODES.get(problem.status, other), in_own_words(problem.detail) + hint
    )

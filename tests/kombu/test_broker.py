"""URLs, tokens, certificates and transport options."""

from __future__ import annotations

import logging
import re
from typing import Any

import pytest
from kombu import Connection

import mq.kombu  # noqa: F401
from mq.kombu.broker import OPTIONS, address_of, read_options
from tests.support.sources import read_table


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mq://", "http://localhost:8080"),
        ("mq://queues.example:81", "http://queues.example:81"),
        ("mq://queues.example/below/here", "http://queues.example:8080/below/here"),
        ("mq://[::1]:81", "http://[::1]:81"),
        ("mq+https://queues.example", "https://queues.example:443"),
        ("mq+https://queues.example:8443/below", "https://queues.example:8443/below"),
        ("mq+http://queues.example:81", "http://queues.example:81"),
    ],
)
def test_where_a_url_leads(url: str, expected: str) -> None:
    assert address_of(Connection(url)).url == expected


@pytest.mark.parametrize("url", ["mq://:a%2Fb@host", "mq+https://:a%2Fb@host"])
def test_the_password_is_the_token(url: str) -> None:
    connection = Connection(url)

    assert address_of(connection).token == "a/b"
    assert "a%2Fb" not in connection.as_uri()
    assert "a/b" not in connection.as_uri()


@pytest.mark.parametrize("url", ["mq://TOKEN@host", "mq+https://TOKEN@host"])
def test_a_token_where_it_would_be_shown_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="after a colon"):
        address_of(Connection(url))


def test_tls_is_chosen_by_broker_use_ssl_too() -> None:
    assert address_of(Connection("mq://host:1", ssl=True)).url == "https://host:1"
    address = address_of(Connection("mq://host:1", ssl={"ca_certs": "/etc/ca.pem"}))
    assert (address.url, address.ca_file) == ("https://host:1", "/etc/ca.pem")


def test_unchecked_certificates_are_refused() -> None:
    with pytest.raises(ValueError, match="always checked"):
        address_of(Connection("mq://host:1", ssl={"cert_reqs": 0}))


def test_what_kombu_adds_to_mq_must_be_http() -> None:
    with pytest.raises(ValueError, match=r"mq\+https"):
        address_of(Connection("mq+ftp://host:1"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"visibility_timeout": 0.5}, "at least 1 second"),
        ({"visibility_timeout": "soon"}, "give seconds"),
        ({"visibility_timeout": float("nan")}, "give seconds"),
        ({"visibility_timeout": 2592001}, "give up to 2592000 seconds"),
        ({"wait_time_seconds": 61}, "up to 60"),
        ({"wait_time_seconds": 0}, "more than 0"),
        ({"retry_seconds": -1}, "give seconds"),
        ({"priority_steps": [0, 5]}, "a queue for each priority"),
        ({"fanout_prefix": True}, "no fanout"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_options(options)


def test_every_option_is_documented() -> None:
    rows = read_table("docs/celery.md", "## Transport options")
    listed = {name for row in rows for name in re.findall(r"\w+", row[0])}

    assert listed == OPTIONS


def test_an_unknown_option_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        read_options({"visibility_timeot": 5, "max_retries": 3})

    assert "visibility_timeot" in caplog.text
    assert "max_retries" not in caplog.text

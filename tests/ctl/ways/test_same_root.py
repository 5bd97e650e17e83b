"""`mqctl` over HTTP lists the queues of the server that it was told, or says why it cannot."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mq.config import Address
from mq.ctl import completing
from mq.ctl.common_flags import CommonFlags
from mq.ctl.ways import connect, same_root
from mq.ctl.ways.by_http import HttpAccess
from mq.ctl.ways.connect import ClientCredentials
from mq.errors import CommandFailed
from tests.support.mqctl import Ctl
from tests.support.processes import Server

TOKEN = "kT3vVt9xkq3mP2sYw8LrBg"
WITH_ADMIN = "--admin=127.0.0.1:0"


@pytest.fixture
def others(start_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> Server:
    """A server with a queue, whose admin listener is where mqctl asks by default."""
    server = start_server(WITH_ADMIN)
    monkeypatch.setattr(connect, "DEFAULT_ADMIN", Address("127.0.0.1", server.admin_port))
    Ctl("--url", server.url).ok("create", "others")
    return server


def listed(url: str, admin: str | None = None, token: str | None = None) -> list[str]:
    with closing(HttpAccess(url, ClientCredentials(token), admin)) as access:
        return [counts.queue for counts in access.list_queues()]


def test_the_default_admin_listener_may_be_of_another_root(
    others: Server, start_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = start_server(root=tmp_path / "mine")

    with pytest.raises(CommandFailed, match="on another root than the one at") as refused:
        listed(server.url)
    offered = completing._over_http(CommonFlags(others.url, None, False))

    assert "--admin" in str(refused.value)
    assert server.url in str(refused.value)
    assert f":{others.admin_port}" in str(refused.value)
    assert offered == ["others"]
    with pytest.raises(CommandFailed, match="another root"):
        completing._over_http(CommonFlags(server.url, None, False))


def test_an_admin_listener_that_is_named_may_be_of_any_root(
    others: Server, start_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = start_server(root=tmp_path / "mine")

    assert listed(server.url, f"127.0.0.1:{others.admin_port}") == ["others"]


def test_all_servers_on_a_root_have_one_admin_listener(
    others: Server, start_server: Callable[..., Server]
) -> None:
    second = start_server("--peers=1", root=others.root)

    assert listed(second.url) == ["others"]
    assert listed(others.url) == ["others"]


def test_a_url_that_was_chosen_and_does_not_answer_ends_the_listing(
    others: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"

        with pytest.raises(CommandFailed, match=f"{url} does not answer"):
            listed(url)
        # The server may have a unix socket alone.
        monkeypatch.setattr(same_root, "DEFAULT_URL", url)
        assert listed(url) == ["others"]


def test_a_server_that_lets_nobody_in_is_not_taken_for_an_open_one(
    others: Server, start_server: Callable[..., Server], tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"reader read {TOKEN}\n")
    tokens.chmod(0o600)
    server = start_server(f"--token-file={tokens}", root=tmp_path / "mine")

    with pytest.raises(CommandFailed, match="--token-file"):
        listed(server.url)
    with pytest.raises(CommandFailed, match="another root"):
        listed(server.url, token=TOKEN)

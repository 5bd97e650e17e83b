"""`mqctl` with tokens, over TLS and over a unix socket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mq.errors import ExitCode
from tests.support.certificates import Pair, make_certificate, make_expired_certificate
from tests.support.mqctl import Ctl, Done, assert_refused
from tests.support.processes import Server
from tests.support.token_files import make_token_file

TOKEN = "kT3vVt9xkq3mP2sYw8LrBg"
READER = "reader-8wYs2Pm3qkx9tVv3TkgBrL"
CLERK = "clerk-5bYs2Pm3qkx9tVv3TkgBrL"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("access")


@pytest.fixture(scope="module")
def pair(folder: Path) -> Pair:
    return make_certificate(folder, "server")


@pytest.fixture(scope="module")
def server(start_shared: Callable[..., Server], folder: Path, pair: Pair) -> Server:
    """It speaks TLS, has a unix socket, and asks for tokens on both."""
    tokens = make_token_file(
        folder,
        f"all read,write,admin {TOKEN}",
        f"reader read {READER}",
        f"clerk read notes {CLERK}",
    )
    (folder / "mine").write_text(f"{TOKEN}\n")
    (folder / "reader").write_text(READER)
    return start_shared(
        f"--token-file={tokens}", *pair.flags(), f"--socket={folder / 'mq.sock'}",
        "--admin=127.0.0.1:0",
    )  # fmt: skip


def https(server: Server) -> str:
    return f"https://localhost:{server.port}"


def test_every_command_works_over_tls_with_a_token(
    server: Server, folder: Path, pair: Pair
) -> None:
    way = ("--url", https(server), "--cacert", str(pair.cert), "--token-file", str(folder / "mine"))
    ctl = Ctl(*way)

    ctl.ok("create", "orders")
    ctl.ok("send", "orders", "two coffees")
    ctl.ok("send", "orders", stdin=bytes(2_000_000))
    message = ctl.ok("recv", "orders", "--json").json()
    ctl.ok("ack", "orders", message["id"], "--lease", message["lease"])

    assert message["body"] == "two coffees"
    assert ctl.ok("info", "orders", "--json").json()["ready"] == 1
    assert len(ctl.ok("recv", "orders").out) == 2_000_000
    ctl.ok("create", "orders.dead")
    ctl.ok("send", "orders.dead", "given up")
    ctl.ok("redrive", "orders")
    assert ctl.ok("recv", "orders").out == b"given up"
    names = ctl.ok("ls", "--json", "--admin", f"localhost:{server.admin_port}").lines()
    assert {each["queue"] for each in names} >= {"orders", "orders.dead"}


@pytest.mark.parametrize("form", ["unix:{}", "unix://{}"])
def test_a_unix_socket_is_a_url(server: Server, folder: Path, form: str) -> None:
    url = form.format(folder / "mq.sock")
    ctl = Ctl("--url", url, "--token-file", str(folder / "mine"))

    ctl.ok("create", "bills")
    sent = ctl.ok("send", "bills", "body").out.decode().strip()

    assert ctl.ok("recv", "bills", "--json").json()["id"] == sent


def test_the_environment_may_hold_the_token(server: Server, folder: Path) -> None:
    url = f"unix:{folder / 'mq.sock'}"
    Ctl("--url", url, "--token-file", str(folder / "mine")).ok("create", "letters")
    info = ("info", "letters")

    assert Ctl()(*info, MQ_URL=url, MQCTL_TOKEN=TOKEN).code == 0
    assert Ctl()(*info, MQ_URL=url, MQCTL_TOKEN_FILE=str(folder / "mine")).code == 0
    mine = ("--token-file", str(folder / "mine"))
    assert Ctl(*mine)(*info, MQ_URL=url, MQCTL_TOKEN="wrong").code == 0
    # An empty variable counts as not set.
    assert_refused(Ctl()(*info, MQ_URL=url, MQCTL_TOKEN=""), ExitCode.REFUSED, "--token-file")


def test_what_the_token_is_not_for_is_refused(server: Server, folder: Path) -> None:
    url = f"unix:{folder / 'mq.sock'}"
    Ctl("--url", url, "--token-file", str(folder / "mine")).ok("create", "notes")
    reader = Ctl("--url", url, "--token-file", str(folder / "reader"))

    assert reader.ok("info", "notes").out
    assert_refused(reader("send", "notes", "x"), ExitCode.REFUSED, "has no scope write")
    assert_refused(Ctl("--url", url)("info", "notes"), ExitCode.REFUSED, "--token-file")


def test_top_shows_the_queues_that_the_token_is_for(
    server: Server, folder: Path, pair: Pair
) -> None:
    way = ("--url", https(server), "--cacert", str(pair.cert))
    Ctl(*way, "--token-file", str(folder / "mine")).ok("create", "notes")
    admin = ("--admin", f"localhost:{server.admin_port}")

    def top(*queues: str) -> Done:
        return Ctl(*way)("top", *queues, *admin, "--interval=0.1", "--json", MQCTL_TOKEN=CLERK)

    assert top("notes").json()["queue"] == "notes"
    assert_refused(top("orders"), ExitCode.REFUSED, "clerk is not for orders")
    assert_refused(top(), ExitCode.REFUSED, "every queue")


def test_an_unknown_certificate_is_refused(server: Server, folder: Path) -> None:
    other = make_certificate(folder, "stranger")
    mine = ("--token-file", str(folder / "mine"))

    for way in ((), ("--cacert", str(other.cert))):
        done = Ctl("--url", https(server), *mine, *way)("info", "orders")
        assert_refused(done, ExitCode.UNAVAILABLE, "is not trusted: ")
        assert "; give its issuer's certificate as --cacert" in done.err
        assert TOKEN not in done.err


def test_another_wrong_certificate_has_another_way_out(
    start_server: Callable[..., Server], server: Server, folder: Path, pair: Pair
) -> None:
    expired = make_expired_certificate(folder, "expired")
    late = start_server(*expired.flags())

    old = Ctl("--url", https(late), "--cacert", str(expired.cert))("info", "orders")
    unnamed = https(server).replace("localhost", "127.1")
    misnamed = Ctl("--url", unnamed, "--cacert", str(pair.cert))("info", "orders")

    assert_refused(old, ExitCode.UNAVAILABLE, "has expired; renew it")
    assert_refused(misnamed, ExitCode.UNAVAILABLE, "'127.1'; use a name that it has, or name")
    assert "--cacert" not in old.err + misnamed.err


def test_plain_http_where_there_is_tls_says_what_to_write(server: Server) -> None:
    done = Ctl("--url", f"http://localhost:{server.port}")("info", "orders")

    assert_refused(done, ExitCode.UNAVAILABLE, "write https:// if it speaks TLS")


@pytest.mark.parametrize("content", ["", "two tokens", "line\nline", "käse"])
def test_a_file_without_one_token_is_refused_and_not_shown(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token"
    path.write_text(content)

    done = Ctl("--token-file", str(path))("info", "q")

    assert_refused(done, ExitCode.USAGE, f"token file {path}: it must hold one token and")
    assert not content or content.split(maxsplit=1)[0] not in done.err.replace("one token", "")


def test_a_bad_way_in_is_named(tmp_path: Path) -> None:
    absent = tmp_path / "absent"

    for way, code, words in (
        (("--token-file", str(absent)), ExitCode.USAGE, "No such file"),
        (("--url", "https://localhost:1", "--cacert", str(absent)), ExitCode.USAGE, "No such file"),
        (("--url", "unix:relative"), ExitCode.USAGE, "unix:/PATH"),
        (("--url", f"unix:{absent}"), ExitCode.UNAVAILABLE, "does not answer"),
    ):
        assert_refused(Ctl(*way)("info", "q"), code, words)

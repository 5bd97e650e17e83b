"""The token file: what a line is, and what is refused without telling what it says."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import pytest
from aiohttp.test_utils import make_mocked_request

from mq.config import MAX_TOKEN_FILE_BYTES
from mq.daemon.token_file import TokenFile, read_tokens
from mq.errors import ExitCode, Forbidden, StartRefused, Unauthorized
from mq.names import QueueName
from mq.web.tokens import KnownToken, Scope, Tokens
from tests.support.users import needs_root

SECRET = "kT3vVt9xkq3mP2sYw8LrBg"
HASH = "sha256:" + hashlib.sha256(SECRET.encode()).hexdigest()
NOTHING = "sha256:" + hashlib.sha256(b"").hexdigest()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.touch(mode=0o600)
    return path


def read(file: Path, text: str) -> list[KnownToken]:
    file.write_text(text)
    return read_tokens(file)


def is_for(token: KnownToken, queue: str) -> bool:
    try:
        token.require(next(iter(token.scopes)), QueueName(queue))
    except Forbidden:
        return False
    return True


def knows(tokens: Tokens, secret: str) -> bool:
    request = make_mocked_request("GET", "/", {"Authorization": f"Bearer {secret}"})
    try:
        tokens.authenticate(request)
    except Unauthorized:
        return False
    return True


def test_a_line_is_a_name_scopes_queues_and_a_token(file: Path) -> None:
    text = f"# comment\n\n  till\twrite,read  orders,mail-*  {SECRET}\nall admin other-{SECRET}\n"

    till, everything = read(file, text)

    assert till.name == "till"
    assert till.scopes == {Scope.READ, Scope.WRITE}
    assert till.digest == hashlib.sha256(SECRET.encode()).digest()
    assert [is_for(till, queue) for queue in ("orders", "mail-1", "mail-")] == [True] * 3
    assert [is_for(till, queue) for queue in ("orders.dead", "xorders", "mail", "mailx1")] == [
        False
    ] * 4
    assert everything.queues is None


def test_a_star_alone_is_every_queue(file: Path) -> None:
    [token] = read(file, f"a read orders,* {SECRET}")

    token.require(Scope.READ, None)
    assert is_for(token, "anything")


def test_a_token_may_stand_as_its_hash(file: Path) -> None:
    [token] = read(file, f"a read {HASH}")

    assert token.digest == hashlib.sha256(SECRET.encode()).digest()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it has no token"),
        ("# a read abcdefgh\n", "it has no token"),
        (f"a {SECRET}", "line 1: a line is NAME SCOPES [QUEUES] TOKEN"),
        (f"a read orders mail {SECRET}", "line 1: a line is NAME SCOPES [QUEUES] TOKEN"),
        (f"\n\na all {SECRET}", "line 3: scopes are read, write, admin"),
        (f"a read, {SECRET}", "line 1: scopes are"),
        (f"a Read {SECRET}", "line 1: scopes are"),
        (f"a/b read {SECRET}", "line 1: a name has"),
        (f"a read orders/x {SECRET}", "line 1: queues are names"),
        (f"a read orders, {SECRET}", "line 1: queues are names"),
        ("a read with\x00zero", "line 1: a token has"),
        ("a read käse-und-brot-mit-wein", "line 1: a token has"),
        ("a read " + "x" * 1025, "line 1: a token has"),
        ("a read sha256:abc", "line 1: sha256: must be followed by"),
        (f"a read {HASH.upper().replace('SHA', 'sha')}", "line 1: sha256: must be followed by"),
        (f"a read {SECRET}\na write other{SECRET}", "line 2: name a is given twice"),
        (f"a read {SECRET}\nb write {HASH}", "line 2: b has the token of a"),
        ("a write orders", "line 1: a token has at least 16 characters"),
        ("a write * abcdefghijklmno", "line 1: a token has at least 16 characters"),
        ("a write orders abc", "line 1: a token has at least 16 characters"),
        ("a write orders-of-the-kitchen", "line 1: the last word has neither a digit nor"),
        ("a write mail_of.the-shop.dead", "line 1: the last word has neither a digit nor"),
        (f"a write {NOTHING}", "line 1: that is the SHA-256 of an empty text"),
        (f"a write orders {NOTHING}", "line 1: that is the SHA-256 of an empty text"),
        ("a write sha256:", "line 1: sha256: must be followed by"),
        ("#" * (MAX_TOKEN_FILE_BYTES + 1), "it has more than"),
    ],
)
def test_what_is_not_in_order_is_refused_by_line_and_not_shown(
    file: Path, text: str, why: str
) -> None:
    with pytest.raises(StartRefused, match=re.escape(why)) as refused:
        read(file, text)

    assert refused.value.exit_code is ExitCode.USAGE
    assert str(file) in str(refused.value)
    assert SECRET not in str(refused.value)
    assert "käse" not in str(refused.value)


@pytest.mark.parametrize("mode", [0o604, 0o602, 0o601, 0o644, 0o620, 0o660])
def test_a_file_that_others_may_read_or_change_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)

    with pytest.raises(StartRefused, match="chmod 600"):
        read(file, f"a read {SECRET}")


def test_a_group_may_read_the_file(file: Path) -> None:
    file.chmod(0o640)

    assert len(read(file, f"a read {SECRET}")) == 1


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match="No such file or directory"):
        read_tokens(tmp_path / "absent")


def test_words_may_be_a_token_behind_queues(file: Path) -> None:
    [token] = read(file, "a read * correct-horse-battery-staple")

    assert token.queues is None


@needs_root
def test_a_file_of_another_user_is_refused(file: Path) -> None:
    """Its owner could write a token into it at any time."""
    file.write_text(f"a read {SECRET}")
    os.chown(file, 12345, 0)

    with pytest.raises(StartRefused, match="belongs to the user 12345"):
        read_tokens(file)


def test_what_is_not_a_file_is_refused_at_once(tmp_path: Path) -> None:
    """A pipe that nobody writes to would hold up every reload after it."""
    os.mkfifo(tmp_path / "pipe", 0o600)

    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(StartRefused, match=r"not a regular file|Is a directory"):
            read_tokens(path)


def test_a_bad_file_at_reload_changes_nothing(file: Path) -> None:
    file.write_text(f"a read {SECRET}\nb read {SECRET}b")
    token_file = TokenFile(file)
    tokens = token_file.tokens
    file.write_text("a read")

    with pytest.raises(StartRefused):
        token_file.reload()

    assert [knows(tokens, secret) for secret in (SECRET, f"{SECRET}b")] == [True, True]
    file.write_text(f"a read {SECRET}")
    token_file.reload()
    assert [knows(tokens, secret) for secret in (SECRET, f"{SECRET}b")] == [True, False]

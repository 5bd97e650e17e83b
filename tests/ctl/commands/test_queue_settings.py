"""`mqctl set`, `create` with settings, and the settings in `info`, by both ways in."""

from __future__ import annotations

import pytest

from mq.errors import ExitCode
from tests.support.mqctl import Ctl, assert_refused
from tests.support.processes import Server, wait_until


def test_settings_are_set_and_shown_and_taken_back(ctl: Ctl, server: Server, queue: str) -> None:
    done = ctl.ok("set", queue, "visibility=60", "dead-letters=failed", "paused=true", "ttl=0.5")

    text = b"visibility=60\ndead-letters=failed\nttl=0.5\npaused=true\n"
    assert done.out == text
    assert (server.root / "queues" / queue / ".settings").read_bytes() == text
    assert ctl.ok("info", queue).out.endswith(text)
    found = {"visibility": 60, "dead-letters": "failed", "ttl": 0.5, "paused": True}
    assert ctl.ok("info", queue, "--json").json()["settings"] == found
    assert ctl.ok("set", queue, "ttl=", "paused=false", "dead-letters=", "--json").json() == {
        "queue": queue, "settings": {"visibility": 60},
    }  # fmt: skip
    assert ctl.ok("set", queue, "visibility=").out == b""


@pytest.mark.parametrize(
    ("change", "detail"),
    [("visibility", "write visibility=VALUE"), ("more", "write also=bills,kitchen"),
     ("colour=red", "colour"), ("ttl=never", "ttl='never'"),
     ("ttl=1e9", "ttl"), ("=1", "unknown setting ''")],
)  # fmt: skip
def test_a_wrong_change_is_a_usage_error(ctl: Ctl, queue: str, change: str, detail: str) -> None:
    assert_refused(ctl("set", queue, "delay=5", change), ExitCode.USAGE, detail)

    assert ctl.ok("info", queue, "--json").json()["settings"] == {}


def test_a_queue_is_made_with_settings(ctl: Ctl, queue: str) -> None:
    made = f"{queue}.made"
    refused = ctl("create", made, "delay=5", "ttl=never")

    assert_refused(refused, ExitCode.USAGE, "ttl='never'")
    assert ctl("info", made).code == ExitCode.NOT_FOUND
    assert ctl.ok("create", made, "visibility=60", "delay=5").out == f"created {made}\n".encode()
    assert ctl.ok("create", made, "delay=").out == f"existed {made}\n".encode()
    assert ctl.ok("info", made, "--json").json()["settings"] == {"visibility": 60}


def test_a_note_of_a_gateway_is_changed_by_root_alone(
    by_root: Ctl, by_http: Ctl, queue: str
) -> None:
    assert_refused(
        by_http("set", queue, "sqs.wait=5"), ExitCode.REFUSED, "unknown parameter 'sqs.wait'"
    )
    assert by_root.ok("set", queue, "sqs.wait=5").out == b"sqs.wait=5\n"
    assert by_root.ok("set", queue, "sqs.wait=").out == b""


def test_a_setting_twice_is_a_usage_error(ctl: Ctl, queue: str) -> None:
    assert_refused(ctl("set", queue, "ttl=5", "ttl=6"), ExitCode.USAGE, "given twice")


def test_set_makes_no_queue(ctl: Ctl, server: Server) -> None:
    assert_refused(ctl("set", "nowhere", "ttl=5"), ExitCode.NOT_FOUND, "nowhere")

    assert not (server.root / "queues" / "nowhere").exists()


def test_what_the_settings_say_counts_without_a_server_too(
    by_root: Ctl, by_http: Ctl, queue: str
) -> None:
    by_http.ok("set", queue, "delay=1000", "max-messages=1")
    by_root.ok("send", queue, "late")
    by_root.ok("send", queue, "now", "--delay", "0")
    assert by_http.ok("info", queue, "--json").json()["ready"] == 1
    assert_refused(by_root("send", queue, "more"), ExitCode.TRY_AGAIN, "setting max-messages")

    by_root.ok("set", queue, "paused=true")

    assert by_root("recv", queue).code == ExitCode.EMPTY
    wait_until(lambda: by_http("recv", queue).code == ExitCode.EMPTY)


def test_dead_letters_of_another_name_are_sent_back(ctl: Ctl, by_root: Ctl, queue: str) -> None:
    by_root.ok("set", queue, "max-receives=1", f"dead-letters={queue}.failed")
    sent = by_root.ok("send", queue, "body").out.decode().strip()
    by_root.ok("recv", queue)
    by_root.ok("release", queue, sent)
    assert by_root.ok("info", f"{queue}.failed", "--json").json()["ready"] == 1

    ctl.ok("redrive", queue)

    assert ctl.ok("info", queue, "--json").json()["ready"] == 1
    assert ctl.ok("info", f"{queue}.failed", "--json").json()["ready"] == 0

"""The page as a person uses it, in headless Chromium."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.browser import Browser, fill, page_of
from tests.support.processes import Server
from tests.support.token_files import make_token_file
from tests.support.wire import Wire

READER, WRITER = "reader-kT3vVt9xkq3mP2sYw8LrBg", "writer-8wYs2Pm3qkx9tVv3TkgBrL"


def names(browser: Browser) -> list[str]:
    return browser.texts("#queues tbody td:first-child")


def test_queues_are_shown_searched_and_sorted(browser: Browser, server: Server) -> None:
    fill(server, orders=[b"1", b"2"], mail=[b"1"], audit=[])

    browser.open(page_of(server))

    browser.wait_for(lambda: names(browser) == ["orders", "mail", "audit"])
    assert browser.texts("#queues tbody td:nth-child(2)") == ["2", "1", "0"]
    browser.click("th[data-column=queue] button")
    browser.wait_for(lambda: names(browser) == ["audit", "mail", "orders"])
    assert browser.find("th[data-column=queue]").get_attribute("aria-sort") == "ascending"
    browser.press("\ue00c")  # Escape
    browser.find("body").send_keys("/")
    browser.wait_for(lambda: browser.run("return document.activeElement.id") == "search")
    browser.press("MAI")
    browser.wait_for(lambda: names(browser) == ["mail"])
    browser.press("\ue007")  # Enter
    browser.wait_for(lambda: browser.find("#name").text == "mail")


def test_what_happens_is_seen_without_a_reload(browser: Browser, server: Server) -> None:
    fill(server, orders=[])
    browser.open(page_of(server))
    browser.wait_for(lambda: browser.texts("#queues tbody td:nth-child(2)") == ["0"])

    fill(server, orders=[b"1", b"2", b"3"], late=[])

    browser.wait_for(lambda: browser.texts("#queues tbody td:nth-child(2)") == ["3", "0"])
    assert names(browser) == ["orders", "late"]


def test_a_queue_that_others_pause_is_seen_as_paused(browser: Browser, server: Server) -> None:
    fill(server, orders=[b"1"], mail=[])
    browser.open(page_of(server))
    browser.wait_for(lambda: names(browser) == ["orders", "mail"])

    with closing(Wire(server.port)) as wire:
        wire.request("PUT", "/orders?paused=true")
        browser.wait_for(lambda: names(browser) == ["orders\npaused", "mail"])
        browser.click("#queues tbody tr")
        browser.wait_for(lambda: browser.is_shown("#paused"))
        wire.request("PUT", "/orders?paused=")
        browser.wait_for(lambda: not browser.is_shown("#paused"))
    browser.press("\ue00c")  # Escape
    browser.wait_for(lambda: names(browser) == ["orders", "mail"])


def test_a_message_is_found_by_keyboard_alone(browser: Browser, server: Server) -> None:
    order = {"order": 4711, "coffee": ["flat white"]}
    fill(server, orders=[json.dumps(order).encode(), b"second", b"\xff\x00binary"], empty=[])
    browser.open(page_of(server))
    browser.wait_for(lambda: len(names(browser)) == 2)

    browser.find("body").send_keys("j")
    browser.find("body").send_keys("\ue007")  # Enter

    browser.wait_for(lambda: len(browser.texts("#messages li")) == 3)
    assert json.loads(browser.find("#message pre").text) == order
    assert browser.texts("#message [role=tab]") == ["text", "JSON", "hex"]
    browser.find("body").send_keys("j")
    browser.wait_for(lambda: browser.find("#message pre").text == "second")
    browser.find("body").send_keys("j")
    browser.wait_for(lambda: browser.texts("#message [role=tab]") == ["hex"])
    assert "ff 00 62 69 6e 61 72 79" in browser.find("#message pre").text
    browser.find("body").send_keys("\ue00c")  # Escape
    browser.wait_for(lambda: browser.is_shown("#overview"))
    with closing(Wire(server.port)) as wire:
        assert wire.count("orders") == (3, 0)


def test_without_admin_write_there_is_nothing_to_press(browser: Browser, server: Server) -> None:
    fill(server, orders=[b"1"])

    browser.open(page_of(server, "orders"))

    browser.wait_for(lambda: len(browser.texts("#messages li")) == 1)
    assert not browser.is_shown(".write, .danger")


def test_a_queue_is_made_and_deleted_only_with_its_name(browser: Browser, writable: Server) -> None:
    browser.open(page_of(writable))
    browser.wait_for(lambda: browser.find("#empty").text.endswith("Create the first one above."))
    browser.find("#new-queue").send_keys("orders")
    browser.click("#make-queue button")
    browser.wait_for(lambda: names(browser) == ["orders"])
    browser.click("#queues tbody tr")

    browser.click("#actions button:last-child")

    assert not browser.find("#confirm-yes").is_enabled()
    browser.find("#confirm-typed").send_keys("order")
    assert not browser.find("#confirm-yes").is_enabled()
    browser.find("#confirm-typed").send_keys("s")
    browser.click("#confirm-yes")
    browser.wait_for(lambda: browser.is_shown("#overview") and names(browser) == [])
    assert not (writable.root / "queues" / "orders").exists()


def test_what_the_server_refuses_is_shown(browser: Browser, writable: Server) -> None:
    browser.open(page_of(writable))
    browser.find("#new-queue").send_keys("a b")
    browser.click("#make-queue button")

    browser.wait_for(lambda: "queue name 'a b'" in browser.find("#toast").text)
    browser.errors()  # the console tells of the 400, too


def test_a_token_is_asked_for_once(
    browser: Browser, start_server: Callable[..., Server], tmp_path: Path
) -> None:
    tokens = make_token_file(tmp_path, f"reader read {READER}")
    server = start_server("--admin=127.0.0.1:0", f"--token-file={tokens}")
    (server.root / "queues" / "orders").mkdir()

    browser.open(page_of(server))
    browser.find("#token-text").send_keys("wrong-" + READER)
    browser.click("#token button")
    browser.wait_for(lambda: "does not know" in browser.find("#token-wrong").text)
    browser.find("#token-text").send_keys(READER)
    browser.click("#token button")

    browser.wait_for(lambda: names(browser) == ["orders"])
    browser.click("#queues tbody tr")
    browser.wait_for(lambda: browser.find("#note").text == "No message is ready.")


def test_another_token_is_asked_for_if_one_does_not_show_the_queues(
    browser: Browser, start_server: Callable[..., Server], tmp_path: Path
) -> None:
    tokens = make_token_file(tmp_path, f"reader read {READER}", f"till write orders {WRITER}")
    server = start_server("--admin=127.0.0.1:0", f"--token-file={tokens}")
    (server.root / "queues" / "orders").mkdir()

    browser.open(page_of(server))
    browser.find("#token-text").send_keys(WRITER)
    browser.click("#token button")
    browser.wait_for(lambda: "has no scope read" in browser.find("#token-wrong").text)
    browser.find("#token-text").send_keys(READER)
    browser.click("#token button")

    browser.wait_for(lambda: names(browser) == ["orders"])
    browser.errors()  # the console tells of the 403, too


def test_a_thousand_queues_are_shown(browser: Browser, server: Server) -> None:
    for number in range(1000):
        (server.root / "queues" / f"queue-{number:03}").mkdir()

    browser.open(page_of(server))

    browser.wait_for(lambda: browser.find("#shown").text == "1,000 queues")
    assert browser.run("return document.querySelectorAll('#queues tbody tr').length") == 1000
    browser.run("scrollTo(0, 9000)")
    head = "document.querySelector('#queues th').getBoundingClientRect()"
    browser.wait_for(lambda: browser.run(f"return scrollY > 8000 && {head}.top === 0"))


@pytest.mark.parametrize("pixels", [320, 500, 770, 1000])
@pytest.mark.parametrize("queue", ["", "orders"])
def test_a_narrow_screen_needs_no_scrolling_to_the_side(
    browser: Browser, writable: Server, queue: str, pixels: int
) -> None:
    fill(writable, orders=[b"x" * 500], **{"n" * 80: []})
    browser.widen(pixels)

    browser.open(page_of(writable, queue))

    browser.wait_for(lambda: browser.is_shown("#queues tbody tr, #messages li"))
    width = "document.documentElement.{}Width"
    assert browser.run(f"return {width.format('scroll')} <= {width.format('client')}") is True


def test_a_narrow_screen_shows_names_whole(browser: Browser, server: Server) -> None:
    fill(server, **{f"{'tenant-' * 10}{number}": [] for number in range(2)})
    browser.widen(320)

    browser.open(page_of(server))

    browser.wait_for(lambda: len(names(browser)) == 2)
    cut = "[...document.querySelectorAll('#queues a')].filter((link) => {}).length"
    beyond = "link.getBoundingClientRect().right > link.closest('td').getBoundingClientRect().right"
    assert browser.run(f"return {cut.format(beyond)}") == 0


@pytest.mark.parametrize("pixels", [320, 770])
def test_a_narrow_screen_breaks_or_cuts_no_name_for_the_tag_of_a_paused_queue(
    browser: Browser, server: Server, pixels: int
) -> None:
    fill(server, **{"new-orders": [], "old-orders": []})
    with closing(Wire(server.port)) as wire:
        wire.request("PUT", "/new-orders?paused=true")
    browser.widen(pixels)

    browser.open(page_of(server))

    browser.wait_for(lambda: names(browser) == ["new-orders\npaused", "old-orders"])
    links = "[...document.querySelectorAll('#queues a')]"
    assert browser.run(f"return new Set({links}.map((link) => link.offsetHeight)).size") == 1
    cut = "link.scrollWidth > link.clientWidth"
    assert browser.run(f"return {links}.some((link) => {cut})") is False


def test_a_server_that_says_nothing_more_is_not_live(
    browser: Browser, start_server: Callable[..., Server]
) -> None:
    """It was stopped, its disk hangs, or the network in between is gone."""
    server = start_server("--admin=127.0.0.1:0")
    fill(server, orders=[])
    browser.open(page_of(server))
    browser.wait_for(lambda: browser.find("#state").text == "live")

    server.popen.send_signal(signal.SIGSTOP)
    browser.wait_for(lambda: "the server is silent" in browser.find("#state").text)
    server.popen.send_signal(signal.SIGCONT)

    browser.wait_for(lambda: browser.find("#state").text == "live")


def test_a_server_that_takes_nothing_is_not_live(
    browser: Browser, start_server: Callable[..., Server]
) -> None:
    server = start_server("--admin=127.0.0.1:0", f"--min-free={2**60}")
    browser.open(page_of(server))

    browser.wait_for(lambda: browser.find("#state").text.startswith("not ready: "))
    assert "--min-free" in browser.find("#state").text
    assert browser.find("#state").get_attribute("class") == "lost"


@pytest.mark.parametrize("pixels", [320, 1280])
def test_a_trouble_of_the_server_is_shown_whole(
    browser: Browser, start_server: Callable[..., Server], pixels: int
) -> None:
    server = start_server("--admin=127.0.0.1:0", f"--min-free={2**60}")
    browser.widen(pixels)

    browser.open(page_of(server))

    browser.wait_for(lambda: browser.find("#state").text.startswith("not ready: "))
    width = "document.documentElement.{}Width"
    assert browser.run(f"return {width.format('scroll')} <= {width.format('client')}") is True


def test_a_server_that_comes_back_is_watched_again(
    browser: Browser, start_server: Callable[..., Server]
) -> None:
    server = start_server("--admin=127.0.0.1:0")
    fill(server, orders=[])
    browser.open(page_of(server))
    browser.wait_for(lambda: browser.find("#state").text == "live")
    server.stop()
    browser.wait_for(lambda: "no connection" in browser.find("#state").text)

    again = start_server(f"--admin=127.0.0.1:{server.admin_port}")
    fill(again, orders=[b"1"])

    browser.wait_for(lambda: browser.find("#state").text == "live")
    browser.wait_for(lambda: browser.texts("#queues tbody td:nth-child(2)") == ["1"])
    browser.errors()  # the console tells of the 503 of a server that is starting, too

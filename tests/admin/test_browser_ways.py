"""From one queue of the page to another, in headless Chromium: what is asked or done about the
first is not done to the second, and nothing of the first is left to see."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from tests.support.browser import Browser, bodies, counted, fill, page_of, press
from tests.support.processes import Server
from tests.support.wire import Wire

GO_TO_MAIL_AFTER_THE_FIRST_MOVE = """
const ask = window.fetch;
window.fetch = async (...request) => {
  const answer = await ask(...request);
  if (request[1]?.method === "POST") location.hash = "#/queues/mail";
  const shown = () => document.getElementById("name").textContent;
  while (location.hash.endsWith("mail") && shown() !== "mail")
    await new Promise((resolve) => setTimeout(resolve, 5));
  return answer;
};
"""


def go_to(browser: Browser, queue: str) -> None:
    """Go to another queue, as the button Back does."""
    browser.run(f"location.hash = '#/queues/{queue}'")
    browser.wait_for(lambda: browser.find("#name").text == queue)


def test_a_long_move_goes_on_with_its_queue_when_that_is_left(
    browser: Browser, writable: Server
) -> None:
    fill(writable, orders=[], mail=[b"1", b"2", b"3"], later=[])
    with closing(Wire(writable.port)) as wire:
        for number in (1000, 100):
            lines = b'{"body": "order"}\n' * number
            ndjson = "application/x-ndjson"
            published = wire.request("POST", "/orders/messages?batch", lines, content_type=ndjson)
            assert published.status == 201
    browser.open(page_of(writable, "orders"))
    browser.wait_for(lambda: len(bodies(browser)) == 50)
    browser.run(GO_TO_MAIL_AFTER_THE_FIRST_MOVE)

    press(browser, "#actions", "Move all")
    browser.find("#move-target").send_keys("later")
    browser.click("#move-yes")

    browser.wait_for(lambda: "Moved 1,100 messages to later." in browser.find("#toast").text)
    counts = {queue: counted(writable, queue) for queue in ("orders", "mail", "later")}
    assert counts == {"orders": 0, "mail": 3, "later": 1100}


@pytest.mark.parametrize(
    ("within", "label", "question"),
    [("#actions", "Purge", "#confirm"), ("#message", "Remove", "#confirm"),
     ("#message", "Move", "#move")],
)  # fmt: skip
def test_a_question_about_a_queue_ends_when_that_is_left(
    browser: Browser, writable: Server, within: str, label: str, question: str
) -> None:
    fill(writable, orders=[b"1"], mail=[b"1"])
    browser.open(page_of(writable, "orders"))
    browser.wait_for(lambda: len(bodies(browser)) == 1)
    press(browser, within, label)
    assert browser.is_shown(question)

    go_to(browser, "mail")

    assert not browser.is_shown(question)


def test_a_queue_that_is_not_paused_does_not_look_it_after_one_that_is(
    browser: Browser, server: Server
) -> None:
    with closing(Wire(server.port)) as wire:
        wire.request("PUT", "/orders?paused=true")
    browser.open(page_of(server, "orders"))
    browser.wait_for(lambda: browser.is_shown("#paused"))

    go_to(browser, "absent")

    assert not browser.is_shown("#paused")
    browser.wait_for(lambda: browser.find("#note").text == "There is no such queue.")
    browser.errors()  # the console tells of the 404, too


def test_a_queue_that_is_made_after_all_is_looked_at(browser: Browser, writable: Server) -> None:
    """Nothing is offered to do with a queue that is not there."""
    browser.open(page_of(writable, "orders"))
    browser.wait_for(lambda: browser.find("#note").text == "There is no such queue.")
    assert not browser.is_shown("#queue .write, #queue .danger")

    fill(writable, orders=[b"first"])

    browser.wait_for(lambda: bodies(browser) == ["first"])
    browser.wait_for(lambda: browser.is_shown("#publish, #actions button"))
    assert browser.find("#note").text == "1 ready message shown, oldest first"
    browser.errors()  # the console tells of the 404, too


@pytest.mark.parametrize("hash", ["%", "%E0%A4%A", "..", "a%2Fb", "orders/more"])
def test_a_link_that_names_no_queue_shows_all_of_them(
    browser: Browser, server: Server, hash: str
) -> None:
    fill(server, orders=[])

    browser.open(page_of(server, hash))

    browser.wait_for(lambda: browser.texts("#queues tbody td:first-child") == ["orders"])
    assert browser.find("#state").text == "live"


def test_a_queue_goes_whatever_it_is_called(
    browser: Browser, start_server: Callable[..., Server]
) -> None:
    """While nobody watches, and although each object of a page has a `constructor`."""
    server = start_server("--admin=127.0.0.1:0")
    fill(server, constructor=[], orders=[])
    browser.open(page_of(server))
    browser.wait_for(lambda: len(browser.texts("#queues tbody td:first-child")) == 2)
    server.stop()
    (server.root / "queues" / "constructor").rmdir()

    start_server(f"--admin=127.0.0.1:{server.admin_port}")

    browser.wait_for(lambda: browser.texts("#queues tbody td:first-child") == ["orders"])

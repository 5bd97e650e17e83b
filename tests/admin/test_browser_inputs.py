"""What a person types and presses on the page, and what is read aloud, in headless Chromium."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.support.browser import Browser, bodies, counted, fill, hide, page_of, press
from tests.support.processes import Server
from tests.support.token_files import make_token_file

READER = "reader-kT3vVt9xkq3mP2sYw8LrBg"
ENTER = "\ue007"
TAB = "\ue004"
ESCAPE = "\ue00c"
DOWN = "\ue015"
ODD_JSON = rb'{"id":12345678901234567890, "price": 1.10,"twice":1,"twice":2,"none":{},"all":[ ],'
ODD_JSON += rb'"text":"a\"{,: b\\","list":[true,{"x":null}]}'
INDENTED = r"""{
  "id": 12345678901234567890,
  "price": 1.10,
  "twice": 1,
  "twice": 2,
  "none": {},
  "all": [],
  "text": "a\"{,: b\\",
  "list": [
    true,
    {
      "x": null
    }
  ]
}"""


def test_json_is_shown_with_every_digit_and_member_that_it_has(
    browser: Browser, server: Server
) -> None:
    fill(server, orders=[ODD_JSON, b"[" * 100_000 + b"]" * 100_000])

    browser.open(page_of(server, "orders"))

    browser.wait_for(lambda: browser.texts("#message pre") == [INDENTED])
    browser.find("body").send_keys("j")
    browser.wait_for(lambda: "195.3 KiB in all" in browser.find("#message pre").text)


def test_a_string_with_millions_of_escapes_is_shown_and_not_the_message_before(
    browser: Browser, server: Server
) -> None:
    fill(server, orders=[b"1", json.dumps('\\"x' * 2_000_000).encode()])
    browser.open(page_of(server, "orders"))
    browser.wait_for(lambda: browser.texts("#message pre") == ["1"])

    browser.find("body").send_keys("j")

    browser.wait_for(lambda: "9.5 MiB in all" in browser.find("#message pre").text)


def test_arrows_scroll_the_body_that_a_keyboard_is_at(browser: Browser, server: Server) -> None:
    fill(server, orders=[b"a line\n" * 300, b"second"])
    browser.open(page_of(server, "orders"))
    browser.wait_for(lambda: len(bodies(browser)) == 2)

    browser.run("document.querySelector('#message pre').focus()")
    browser.press(DOWN)

    browser.wait_for(lambda: browser.run("return document.querySelector('#message pre').scrollTop"))
    assert browser.run("return document.activeElement.tagName") == "PRE"
    browser.press("j")
    browser.wait_for(lambda: browser.texts("#message pre") == ["second"])


def test_colours_of_the_system_show_what_is_chosen(browser: Browser, server: Server) -> None:
    """High contrast of Windows draws neither backgrounds nor shadows of a page."""
    fill(server, orders=[b"1", b"2"])
    browser.force_colours("active")
    browser.open(page_of(server, "orders"))
    browser.wait_for(lambda: len(bodies(browser)) == 2)

    chosen = browser.run("""
      return [...document.querySelectorAll("#queue [role=tab], #messages li")].map((each) =>
        [each.getAttribute("aria-selected") === "true", getComputedStyle(each).outlineStyle])""")
    assert isinstance(chosen, list)
    assert [is_chosen for is_chosen, _ in chosen].count(True) == 3
    assert all((style == "solid") == is_chosen for is_chosen, style in chosen)
    browser.force_colours("none")


def test_enter_does_what_was_asked_and_cancel_does_not(browser: Browser, writable: Server) -> None:
    fill(writable, orders=[b"1"], later=[])
    browser.open(page_of(writable, "orders"))
    browser.wait_for(lambda: len(bodies(browser)) == 1)

    press(browser, "#actions", "Move all")
    browser.find("#move-target").send_keys("later")
    browser.click("#move .cancel")
    browser.wait_for(lambda: not browser.is_shown("#move"))
    assert counted(writable, "later") == 0
    press(browser, "#actions", "Move all")
    browser.find("#move-target").send_keys("later" + ENTER)

    browser.wait_for(lambda: counted(writable, "later") == 1)


def test_enter_behind_a_name_that_was_asked_for_goes_on(browser: Browser, writable: Server) -> None:
    fill(writable, orders=[b"1"])
    browser.open(page_of(writable, "orders"))

    press(browser, "#actions", "Purge")
    browser.find("#confirm-typed").send_keys("order" + ENTER)
    assert browser.is_shown("#confirm")
    assert counted(writable, "orders") == 1
    browser.find("#confirm-typed").send_keys("s" + ENTER)

    browser.wait_for(lambda: counted(writable, "orders") == 0)


def test_more_that_is_pressed_twice_shows_each_message_once(
    browser: Browser, server: Server
) -> None:
    fill(server, orders=[])
    hide(server, leased=0, delayed=60)
    browser.open(page_of(server, "orders"))
    browser.wait_for(lambda: browser.find("#note").text == "No message is ready.")
    browser.find("body").send_keys("3")
    browser.wait_for(lambda: len(bodies(browser)) == 50)

    browser.run("for (const _ of [1, 2]) document.getElementById('more').click()")
    browser.wait_for(lambda: len(bodies(browser)) >= 60)
    browser.wait_for(lambda: not browser.is_shown("#more"))

    assert bodies(browser) == [f"later {number}" for number in range(60)]


def test_a_token_that_no_header_carries_is_not_taken(
    browser: Browser, start_server: Callable[..., Server], tmp_path: Path
) -> None:
    tokens = make_token_file(tmp_path, f"reader read {READER}")
    server = start_server("--admin=127.0.0.1:0", f"--token-file={tokens}")
    (server.root / "queues" / "orders").mkdir()
    browser.open(page_of(server))
    field = browser.find("#token-text")
    browser.wait_for(field.is_displayed)

    field.send_keys("\u0442\u043e\u043a\u0435\u043d\u2026" + ENTER)
    assert browser.is_shown("#token")
    field.clear()
    field.send_keys(READER + ENTER)

    browser.wait_for(lambda: browser.texts("#queues tbody td:first-child") == ["orders"])


_COUNT_WHAT_IS_TOLD = (
    "window.told = 0;"
    "new MutationObserver((changes) => { window.told += changes.length; })"
    ".observe(document.querySelector('header [role=status]'), {childList: true, subtree: true})"
)


def test_a_screen_reader_is_not_told_each_second_that_the_page_is_live(
    browser: Browser, server: Server
) -> None:
    fill(server, orders=[])
    browser.open(page_of(server))
    browser.wait_for(lambda: browser.find("#state").text == "live")

    browser.run(_COUNT_WHAT_IS_TOLD)
    fill(server, late=[])

    browser.wait_for(lambda: browser.texts("#queues tbody td:first-child") == ["late", "orders"])
    assert browser.run("return window.told") == 0


def test_a_screen_reader_is_told_of_a_trouble_once_though_its_figures_change(
    browser: Browser, start_server: Callable[..., Server]
) -> None:
    server = start_server("--admin=127.0.0.1:0", f"--min-free={2**60}")
    browser.open(page_of(server))
    browser.wait_for(lambda: browser.find("#state").text.startswith("not ready: "))
    told = browser.find("header [role=status]").get_attribute("textContent")
    assert told is not None
    assert "bytes are free" in told

    browser.run(_COUNT_WHAT_IS_TOLD)
    shown = browser.find("#state").text
    (server.root / "filler").write_bytes(bytes(1 << 20))

    browser.wait_for(lambda: browser.find("#state").text != shown)
    assert browser.find("#state").text.startswith("not ready: ")
    assert browser.run("return window.told") == 0


def test_the_key_tab_comes_to_one_queue_and_arrows_to_the_others(
    browser: Browser, server: Server
) -> None:
    fill(server, orders=[b"first", b"second"], mail=[b"1"], audit=[])
    browser.open(page_of(server))
    browser.wait_for(lambda: len(browser.texts("#queues tbody tr")) == 3)

    browser.run("document.querySelector('#queues th:last-child button').focus()")
    browser.press(TAB)
    assert browser.run("return document.activeElement.textContent") == "orders"
    browser.press(TAB)
    assert browser.run("return document.activeElement.closest('#queues')") is None
    browser.press("j")
    browser.press("j")
    browser.wait_for(lambda: browser.run("return document.activeElement.textContent") == "mail")
    browser.press(ENTER)

    browser.wait_for(lambda: bodies(browser) == ["1"])
    assert browser.run("return document.activeElement.textContent") == "mail"
    browser.press(TAB)
    assert browser.run("return document.activeElement.closest('#cards')") is not None
    browser.press(ESCAPE)
    browser.wait_for(lambda: browser.is_shown("#overview"))
    assert browser.run("return document.activeElement.closest('td').textContent") == "mail"


def test_a_screen_reader_is_told_what_the_keys_choose(browser: Browser, server: Server) -> None:
    fill(server, orders=[b"first", b"second"], mail=[])
    browser.open(page_of(server))
    browser.wait_for(lambda: len(browser.texts("#queues tbody tr")) == 2)

    for queue in ("orders", "mail", "orders"):
        browser.press("k" if queue == "orders" else "j")
        assert browser.run("return document.activeElement.textContent") == queue
    browser.press(ENTER)

    browser.wait_for(lambda: len(bodies(browser)) == 2)
    browser.find("#messages").send_keys("j")
    [chosen] = browser.driver.find_elements("css selector", "#messages [aria-selected=true]")
    assert chosen.text.startswith("second")
    assert chosen.get_attribute("role") == "option"
    assert browser.find("#messages").get_attribute("aria-activedescendant") == "message-1"


def test_a_screen_reader_is_told_what_a_question_is_about(
    browser: Browser, writable: Server
) -> None:
    fill(writable, orders=[b"1"])
    browser.open(page_of(writable, "orders"))
    browser.wait_for(lambda: bodies(browser) == ["1"])

    press(browser, "#actions", "Purge")
    assert browser.find("#confirm").accessible_name == "Purge"
    browser.press(ESCAPE)
    press(browser, "#actions", "Move all")
    assert browser.find("#move").accessible_name == "Move all"
    browser.press(ESCAPE)
    browser.find("body").send_keys("?")
    assert browser.find("#help").accessible_name == "Keys"

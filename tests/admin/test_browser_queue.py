"""The page of one queue, as a person uses it, in headless Chromium."""

from __future__ import annotations

from contextlib import closing
from typing import cast

import pytest

from tests.support.browser import Browser, bodies, counted, fill, hide, page_of, press
from tests.support.processes import Server
from tests.support.wire import Wire

HOSTILE = "\u202egnp.exe \x1b[31m<img src=x onerror='window.hacked=1'><script>hacked=1</script>"


def test_what_a_message_says_is_text_and_nothing_else(browser: Browser, server: Server) -> None:
    long_line = b"<b>x</b>" * 131_072
    half = "\u20ac".encode()[:2]
    fill(server, orders=[HOSTILE.encode(), long_line, half])

    browser.open(page_of(server, "orders"))

    browser.wait_for(lambda: len(browser.texts("#messages li")) == 3)
    shown = browser.find("#message pre").text
    assert "<script>hacked=1</script>" in shown
    assert "\u27e8U+202E\u27e9" in shown
    assert "\u27e8U+001B\u27e9[31m" in shown
    assert browser.run("return window.hacked") is None
    assert browser.run("return document.querySelectorAll('#queue b img, pre img').length") == 0
    browser.click("#message-1")
    browser.wait_for(lambda: "1.0 MiB in all" in browser.find("#message pre").text)
    assert browser.run("return document.querySelectorAll('pre b').length") == 0
    browser.click("#message-2")
    browser.wait_for(lambda: "e2 82" in browser.find("#message pre").text)


def test_a_message_is_published_and_removed(browser: Browser, writable: Server) -> None:
    fill(writable, orders=[])
    browser.open(page_of(writable, "orders"))
    browser.wait_for(lambda: browser.is_shown("#publish"))

    browser.find("#body").send_keys("three teas")
    browser.find("#type").send_keys("text/x-tea")
    browser.click("#publish button")

    browser.wait_for(lambda: browser.texts("#message pre") == ["three teas"])
    assert "text/x-tea" in browser.find("#message dl").text
    press(browser, "#message", "Remove")
    browser.click("#confirm-yes")
    browser.wait_for(lambda: browser.find("#note").text == "No message is ready.")
    with closing(Wire(writable.port)) as wire:
        assert wire.count("orders") == (0, 0)


def test_a_message_is_moved_with_a_reason(browser: Browser, writable: Server) -> None:
    fill(writable, orders=[b"1", b"2"], **{"orders.dead": []})
    browser.open(page_of(writable, "orders"))
    browser.wait_for(lambda: len(browser.texts("#messages li")) == 2)

    press(browser, "#message", "Move")
    gap = "return {1}.getBoundingClientRect().top - {0}.getBoundingClientRect().bottom".format(
        *(f"document.querySelector('#move {part}')" for part in ("input", "label + label"))
    )
    browser.wait_for(lambda: cast(float, browser.run(gap)) >= 8)
    assert browser.find("#move-target").get_attribute("value") == "orders.dead"
    browser.find("#move-reason").send_keys("no such street")
    browser.click("#move-yes")

    browser.wait_for(lambda: len(browser.texts("#messages li")) == 1)
    browser.open(page_of(writable, "orders.dead"))
    browser.wait_for(lambda: "in orders: no such street" in browser.find("#message dl").text)


def test_dead_letters_are_redriven(browser: Browser, writable: Server) -> None:
    fill(writable, orders=[], **{"orders.dead": [b"1", b"2", b"3"]})
    browser.open(page_of(writable, "orders.dead"))
    browser.wait_for(lambda: len(browser.texts("#messages li")) == 3)

    press(browser, "#actions", "Redrive")
    browser.click("#confirm-yes")

    browser.wait_for(lambda: "Moved 3 messages to orders." in browser.find("#toast").text)
    assert (counted(writable, "orders"), counted(writable, "orders.dead")) == (3, 0)


def test_all_messages_of_a_queue_are_moved_but_for_those_that_must_stay(
    browser: Browser, writable: Server
) -> None:
    fill(writable, orders=[b"1", b"2"], later=[])
    with closing(Wire(writable.port)) as wire:
        for queue in ("orders", "later"):
            wire.publish(queue, b"own", x_message_id="own")
    browser.open(page_of(writable, "orders"))
    browser.wait_for(lambda: len(browser.texts("#messages li")) == 3)

    press(browser, "#actions", "Move all")
    browser.find("#move-target").send_keys("later")
    browser.click("#move-yes")

    browser.wait_for(lambda: "1 stay" in browser.find("#toast").text)
    assert (counted(writable, "orders"), counted(writable, "later")) == (1, 3)


def test_messages_of_every_state_are_looked_at(browser: Browser, server: Server) -> None:
    fill(server, orders=[b"leased", b"ready 1", b"ready 2"])
    hide(server, leased=1, delayed=3)

    browser.open(page_of(server, "orders"))

    browser.wait_for(lambda: bodies(browser) == ["ready 1", "ready 2"])
    browser.wait_for(lambda: browser.texts("#cards [role=tab] b") == ["2", "1", "3"])
    browser.click("#cards [role=tab]:nth-child(2)")
    browser.wait_for(lambda: bodies(browser) == ["leased"])
    assert "until" in browser.find("#message dl").text
    assert "received 1" in browser.find("#messages .line").text
    browser.find("body").send_keys("3")
    browser.wait_for(lambda: bodies(browser) == ["later 0", "later 1", "later 2"])
    assert "ready in" in browser.find("#messages .line").text
    assert browser.find("#cards [aria-selected=true]").text.startswith("3")
    with closing(Wire(server.port)) as wire:
        assert wire.request("GET", "/orders").json()["leased"] == 1


def test_a_message_that_is_tapped_on_a_narrow_screen_comes_into_sight(
    browser: Browser, writable: Server
) -> None:
    fill(writable, orders=[b"order %d" % number for number in range(20)])
    browser.widen(375)
    browser.open(page_of(writable, "orders"))
    browser.wait_for(lambda: len(bodies(browser)) == 20)
    bottom = "document.getElementById('message').getBoundingClientRect().bottom"
    assert browser.run(f"return {bottom} > innerHeight") is True

    browser.click("#messages li:nth-child(3)")

    browser.wait_for(lambda: browser.texts("#message pre") == ["order 2"])
    browser.wait_for(lambda: browser.run(f"return {bottom} <= innerHeight"))


def test_states_are_picked_by_arrows_and_the_list_is_looked_at_again(
    browser: Browser, server: Server
) -> None:
    fill(server, orders=[])
    browser.open(page_of(server, "orders"))
    browser.wait_for(lambda: browser.find("#note").text == "No message is ready.")

    browser.run("document.querySelector('#cards [role=tab]').focus()")
    browser.press("\ue014")  # to the right
    browser.wait_for(lambda: browser.find("#note").text == "No message is leased.")
    browser.press("\ue014")
    browser.wait_for(lambda: browser.find("#note").text == "No message is delayed.")
    hide(server, leased=0, delayed=1)
    browser.press("r")

    browser.wait_for(lambda: bodies(browser) == ["later 0"])


def test_properties_are_shown_as_text(browser: Browser, server: Server) -> None:
    fill(server, orders=[])
    with closing(Wire(server.port)) as wire:
        wire.publish(
            "orders", b"x", traceparent="00-4bf92f-01", x_meta_html="<img src=x onerror=hacked=1>"
        )

    browser.open(page_of(server, "orders"))

    shown = browser.find("#message .properties")
    browser.wait_for(lambda: "00-4bf92f-01" in shown.text)
    assert "<img src=x onerror=hacked=1>" in shown.text
    assert browser.run("return document.querySelectorAll('#message img').length") == 0
    assert browser.run("return window.hacked") is None


def test_many_messages_are_looked_at_page_by_page(browser: Browser, server: Server) -> None:
    fill(server, orders=[])
    hide(server, leased=0, delayed=60)
    browser.open(page_of(server, "orders"))
    browser.wait_for(lambda: browser.find("#note").text == "No message is ready.")
    browser.find("body").send_keys("3")
    browser.wait_for(lambda: len(bodies(browser)) == 50)

    browser.click("#more")

    browser.wait_for(lambda: bodies(browser) == [f"later {number}" for number in range(60)])
    browser.wait_for(lambda: not browser.is_shown("#more"))


def test_more_is_offered_behind_a_page_that_large_bodies_cut_short(
    browser: Browser, server: Server
) -> None:
    fill(server, orders=[letter * (9 << 20) for letter in (b"a", b"b")])
    browser.open(page_of(server, "orders"))
    browser.wait_for(lambda: len(bodies(browser)) == 1)

    browser.click("#more")

    browser.wait_for(lambda: len(bodies(browser)) == 2)
    browser.wait_for(lambda: not browser.is_shown("#more"))


@pytest.mark.parametrize(("state", "label"), [("2", "Release"), ("3", "Make ready")])
def test_a_hidden_message_is_given_back(
    browser: Browser, writable: Server, state: str, label: str
) -> None:
    fill(writable, orders=[b"leased"])
    hide(writable, leased=1, delayed=1)
    browser.open(page_of(writable, "orders"))
    browser.wait_for(lambda: browser.find("#note").text == "No message is ready.")
    browser.find("body").send_keys(state)

    press(browser, "#message", label)
    browser.click("#confirm-yes")

    browser.wait_for(lambda: browser.find("#toast").text == "It is ready.")
    assert counted(writable, "orders") == 1


def test_a_queue_is_paused_and_resumed(browser: Browser, writable: Server) -> None:
    fill(writable, orders=[b"1"])
    browser.open(page_of(writable, "orders"))

    press(browser, "#actions", "Pause")
    browser.click("#confirm-yes")

    browser.wait_for(lambda: browser.is_shown("#paused"))
    with closing(Wire(writable.port)) as wire:
        assert wire.receive("orders").status == 204
        press(browser, "#actions", "Resume")
        browser.wait_for(lambda: not browser.is_shown("#paused"))
        assert wire.receive("orders").status == 200


def test_a_keyboard_goes_on_where_it_has_done_something(browser: Browser, writable: Server) -> None:
    fill(writable, orders=[b"1", b"2"])
    browser.open(page_of(writable, "orders"))
    browser.wait_for(lambda: bodies(browser) == ["1", "2"])

    confirm(browser, "#actions button:first-child")
    browser.wait_for(lambda: browser.is_shown("#paused"))
    browser.wait_for(lambda: browser.driver.switch_to.active_element.text == "Resume")
    confirm(browser, "#message .danger")
    browser.wait_for(lambda: focused(browser) == "messages")
    confirm(browser, "#message .danger")
    browser.wait_for(lambda: focused(browser) == "again")


def confirm(browser: Browser, button: str) -> None:
    """Press the button, and the second one of the question that follows, by keyboard alone."""
    browser.run(f"document.querySelector('{button}').focus()")
    browser.press("\ue007")  # Enter
    browser.wait_for(lambda: browser.is_shown("#confirm-yes"))
    browser.press("\ue004\ue007")  # Tab, Enter


def focused(browser: Browser) -> object:
    return browser.run("return document.activeElement.id")


def test_a_queue_is_purged_only_with_its_name(browser: Browser, writable: Server) -> None:
    fill(writable, orders=[b"1", b"2", b"3"])
    hide(writable, leased=1, delayed=2)
    browser.open(page_of(writable, "orders"))

    press(browser, "#actions", "Purge")

    assert not browser.find("#confirm-yes").is_enabled()
    browser.find("#confirm-typed").send_keys("orders")
    browser.click("#confirm-yes")
    browser.wait_for(lambda: browser.find("#toast").text == "Removed 5 messages from orders.")
    browser.wait_for(lambda: browser.find("#note").text == "No message is ready.")
    with closing(Wire(writable.port)) as wire:
        info = wire.request("GET", "/orders").json()
    assert (info["ready"], info["leased"], info["delayed"]) == (0, 0, 0)


def test_settings_are_shown(browser: Browser, server: Server) -> None:
    with closing(Wire(server.port)) as wire:
        wire.request("PUT", "/orders?visibility=60&max-receives=5&paused=true")

    browser.open(page_of(server, "orders"))

    browser.wait_for(lambda: browser.is_shown("#paused"))
    shown = browser.find("#settings").text.split()
    assert shown == ["visibility", "60", "max-receives", "5", "paused", "true"]
    assert not browser.is_shown("#actions button")


def test_the_queues_that_get_copies_are_a_click_away(browser: Browser, server: Server) -> None:
    fill(server, orders=[], bills=[b"a bill"], kitchen=[])
    with closing(Wire(server.port)) as wire:
        wire.request("PUT", "/orders?also=kitchen,bills")
        wire.request("DELETE", "/kitchen")

    browser.open(page_of(server, "orders"))

    browser.wait_for(lambda: browser.texts("#settings dd") == ["kitchen (missing), bills"])
    browser.click("#settings a:last-child")
    browser.wait_for(lambda: browser.texts("#message pre") == ["a bill"])
    assert browser.find("#name").text == "bills"

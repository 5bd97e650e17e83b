"""Headless Chromium, as a person at the page would use it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, TypeVar

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.support.processes import Server
from tests.support.wire import Wire

_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-quic", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--window-size=1280,900", "--lang=en-US",
)  # fmt: skip
_PATIENCE_SECONDS = 30

T = TypeVar("T")


class Browser:
    """One window. Whatever its console says of an error is kept."""

    def __init__(self, driver: Chrome) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        self.driver.get("about:blank")
        self.driver.get(url)

    def find(self, selector: str) -> WebElement:
        """Return an element. Waits for it to be there."""
        return self.wait_for(
            lambda: next(iter(self.driver.find_elements(By.CSS_SELECTOR, selector)), None)
        )

    def texts(self, selector: str) -> list[str]:
        """Return what a person can read of each."""
        return [each.text for each in self.driver.find_elements(By.CSS_SELECTOR, selector)]

    def is_shown(self, selector: str) -> bool:
        found = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return any(each.is_displayed() for each in found)

    def click(self, selector: str) -> None:
        self.wait_for(lambda: self.is_shown(selector))
        # The element may be drawn again before it is clicked.
        self.wait_for(lambda: self._click(selector))

    def _click(self, selector: str) -> bool:
        self.find(selector).click()
        return True

    def press(self, keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(keys)

    def widen(self, pixels: int) -> None:
        """Tell the page that it has this width: a window has 500 pixels at least."""
        metrics = {"width": pixels, "height": 800, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def run(self, script: str) -> object:
        found: object = self.driver.execute_script(script)
        return found

    def force_colours(self, value: str) -> None:
        """Draw the page in the colours of the system, `active`, or in its own, `none`."""
        features = [{"name": "forced-colors", "value": value}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def wait_for(self, condition: Callable[[], T | None]) -> T:
        """Return what `condition` returns once it is neither None nor False."""
        waiting = WebDriverWait(
            self.driver, _PATIENCE_SECONDS, 0.05, [StaleElementReferenceException]
        )
        found: T = waiting.until(lambda _: condition() or False)
        return found

    def errors(self) -> list[str]:
        untyped: Any = self.driver
        return [each["message"] for each in untyped.get_log("browser")]


def page_of(server: Server, queue: str = "") -> str:
    return f"http://127.0.0.1:{server.admin_port}/#/" + (f"queues/{queue}" if queue else "")


def fill(server: Server, **queues: list[bytes]) -> None:
    with closing(Wire(server.port)) as wire:
        for queue, bodies in queues.items():
            wire.request("PUT", f"/{queue}")
            for body in bodies:
                wire.publish(queue, body)


def press(browser: Browser, within: str, label: str) -> None:
    """Click the button of that label."""
    script = (
        f"const found = [...document.querySelectorAll('{within} button')].find((each) =>"
        f" each.textContent === '{label}' && !each.closest('[hidden]'));"
        " found?.click(); return Boolean(found)"
    )
    browser.wait_for(lambda: browser.run(script) is True)


def bodies(browser: Browser) -> list[str]:
    """Return how the messages begin that are listed."""
    return browser.texts("#messages .start")


def counted(server: Server, queue: str) -> int:
    with closing(Wire(server.port)) as wire:
        return wire.count(queue)[0]


def hide(server: Server, leased: int, delayed: int) -> None:
    """Hide messages of the queue `orders` for as long as a test takes."""
    with closing(Wire(server.port)) as wire:
        for _ in range(leased):
            assert wire.request("GET", "/orders/messages?visibility=900").status == 200
        for number in range(delayed):
            body = b"later %d" % number
            assert wire.request("POST", "/orders/messages?delay=7200", body).status == 201


@contextmanager
def browsing() -> Iterator[Browser]:
    """Yield a browser with a profile of its own. Both are gone at the end."""
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        pytest.skip("install the packages chromium and chromium-driver")
    with tempfile.TemporaryDirectory() as profile:
        options = Options()
        options.binary_location = str(programs[0])
        for flag in (*_FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = Chrome(options=options, service=Service(str(programs[1])))
        try:
            yield Browser(driver)
        finally:
            driver.quit()

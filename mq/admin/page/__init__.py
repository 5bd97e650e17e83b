"""The page for people: three files without a build step. They load nothing from elsewhere, and the
policy that they are sent with forbids it. The figures on the page come from `mq.admin.live`, and
computing them does not belong in here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class Page(NamedTuple):
    body: bytes
    headers: Mapping[str, str]


def _read(name: str, content_type: str) -> Page:
    headers = {
        "Content-Type": content_type,
        "Content-Security-Policy": _POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
    }
    return Page(files(__name__).joinpath(name).read_bytes(), headers)


PAGES: Mapping[str, Page] = {
    "/": _read("index.html", "text/html; charset=utf-8"),
    **{
        f"/{name}": _read(name, "text/javascript; charset=utf-8")
        for name in ("messages.js", "page.js", "queue.js", "server.js", "view.js")
    },
    "/page.css": _read("page.css", "text/css; charset=utf-8"),
    "/icon.svg": _read("icon.svg", "image/svg+xml"),
}

"""What is in the files of the page."""

from __future__ import annotations

import re

from mq.admin.page import PAGES


def test_the_page_loads_nothing_from_elsewhere_and_has_no_script_in_its_markup() -> None:
    for path, page in PAGES.items():
        text = page.body.decode()

        assert set(re.findall(r"https?://[\w.:]+", text)) <= {
            "http://www.w3.org", "http://127.0.0.1:8080"
        }  # fmt: skip
        for risky in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert risky not in text
        assert path != "/" or not re.search(r"\son\w+=|<script(?! type=\"module\" src=)", text)


def luminance(color: str) -> float:
    """The relative luminance of `#rrggbb` or `#rgb` (WCAG 2.2)."""
    digits = color.removeprefix("#")
    full = digits if len(digits) == 6 else "".join(2 * each for each in digits)
    parts = [int(full[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_what_is_written_can_be_told_from_what_is_behind_it() -> None:
    """WCAG 2.2 asks for a contrast of 4.5 (1.4.3)."""
    themes = re.findall(r":root \{(.*?)\}", PAGES["/page.css"].body.decode(), re.DOTALL)
    for theme in themes:
        colors = dict(re.findall(r"--([\w-]+): (#\w+);", theme))
        for written in ("text", "dim", "blue", "red", "amber"):
            for behind in ("back", "card", "hover"):
                pair = sorted((luminance(colors[written]), luminance(colors[behind])))
                assert (pair[1] + 0.05) / (pair[0] + 0.05) >= 4.5, (written, behind)

    assert len(themes) == 2
    colored = re.findall(r"[^-]color: var\(--([\w-]+)\)", PAGES["/page.css"].body.decode())
    assert set(colored) <= {"text", "dim", "blue", "red", "amber", "back"}


def test_the_page_may_be_behind_a_proxy_that_adds_a_path() -> None:
    """Its files ask for each other, and for what they show, beside themselves."""
    for page in PAGES.values():
        text = page.body.decode()

        assert not re.search(r"""(?:href|src)="/|from "/|(?:send|fetch)\([`"]/""", text)

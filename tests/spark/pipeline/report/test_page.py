"""The page of a report: what each plot shows is what the report has."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from pyspark_mq.pipeline.report.page import MOST_BARS, Bar, page_of, plots_of
from pyspark_mq.pipeline.report.report import (
    AGES,
    COLUMNS,
    COUNTS,
    QueueReport,
    Report,
    table_rows,
    table_text,
)


def report_of(*queues: QueueReport) -> Report:
    return Report("2026-11-22 08:00:00 UTC", "/srv/mq", list(queues))


ORDERS = QueueReport(
    "orders", ready=30, leased=5, delayed=2, dead=4, bytes=4096, oldest_seconds=7200.0,
    oldest_dead_seconds=90.0, ages=[1, 2, 3, 31, 0, 0, 0], counts=[20, 10, 5, 1, 0, 1],
)  # fmt: skip
RETURNS = QueueReport(
    "returns", ready=100, bytes=100, oldest_seconds=1.0, ages=[100, 0, 0, 0, 0, 0, 0],
    counts=[100, 0, 0, 0, 0, 0],
)  # fmt: skip


def test_the_data_behind_each_plot_is_that_of_the_report() -> None:
    backlog, ages, counts, dead = plots_of(report_of(ORDERS, RETURNS))

    assert [plot.title for plot in (backlog, ages, counts, dead)] == [
        "Backlog by queue", "Age of messages", "How often they were received",
        "Dead letters by queue",
    ]  # fmt: skip
    assert backlog.kinds == ("ready", "leased", "delayed")
    assert backlog.bars == [Bar("returns", (100, 0, 0)), Bar("orders", (30, 5, 2))]
    assert [bar.label for bar in ages.bars] == [name for name, _ in AGES]
    assert [bar.total for bar in ages.bars] == [101, 2, 3, 31, 0, 0, 0]
    assert [bar.label for bar in counts.bars] == list(COUNTS)
    assert [bar.total for bar in counts.bars] == [120, 10, 5, 1, 0, 1]
    assert dead.bars == [Bar("orders", (4,))]


def test_bars_are_as_long_as_their_numbers_say() -> None:
    page = page_of(report_of(ORDERS, RETURNS))
    backlog = page[page.index("Backlog by queue") : page.index("Age of messages")]

    drawn = re.findall(r"<rect x='([0-9.]+)%' width='([0-9.]+)%'", backlog)

    # returns: 100 ready; orders: 30 ready, 5 leased, 2 delayed.
    assert [(float(left), float(width)) for left, width in drawn] == [
        (0, 100), (0, 30), (30, 5), (35, 2),
    ]  # fmt: skip


def test_every_bar_of_a_plot_is_on_the_page_with_its_number() -> None:
    report = report_of(ORDERS, RETURNS)
    shown = re.findall(
        r"class='label'>(.*?)</span>.*?class='number'>([0-9,]+)<", page_of(report), re.DOTALL
    )

    assert shown == [
        (bar.label, f"{bar.total:,}") for plot in plots_of(report) for bar in plot.bars
    ]


def test_queues_that_a_plot_has_no_room_for_are_counted_below_it_and_in_the_table() -> None:
    queues = [QueueReport(f"q{size}", ready=size, dead=size) for size in range(1, MOST_BARS + 4)]
    report = report_of(*queues)
    page = page_of(report)

    for plot in (plots_of(report)[0], plots_of(report)[3]):
        assert [bar.total for bar in plot.bars] == list(range(MOST_BARS + 3, 3, -1))
        assert [bar.total for bar in plot.more] == [3, 2, 1]
    more = (
        f"the {MOST_BARS} largest of {MOST_BARS + 3} queues. 3 more queues, with 6 messages, are in"
    )
    assert page.count(more) == 2
    assert all(cell_of("queue", each.queue) in page for each in queues)
    assert "largest" not in page_of(report_of(*queues[:MOST_BARS]))


def cell_of(column: str, text: str) -> str:
    return f"<td data-column='{column}'>{text}</td>"


def test_the_page_is_whole_by_itself_and_has_its_data() -> None:
    report = report_of(ORDERS, RETURNS)
    page = page_of(report)

    assert re.findall(r"(?:src|href)=|@import|url\(", page) == []
    data = re.search(r"id='data'>(.*?)</script>", page)
    assert data is not None
    assert json.loads(data[1]) == report.to_dict()
    for row in table_rows(report):
        assert "".join(map(cell_of, COLUMNS, row)) in page


@pytest.mark.parametrize(
    "name",
    ["</script><b>&", "' onload='alert(1)", '" onload="alert(1)', "<svg/onload=alert(1)>",
     "</title></style><!--", "\u202eevil\x00\ud800"],
)  # fmt: skip
def test_what_a_queue_or_a_root_is_named_is_text_on_the_page(name: str) -> None:
    report = Report("now", name, [QueueReport(name, ready=1, dead=1)])
    page = ReadPage.read(page_of(report))

    assert (
        page.tags == ReadPage.read(page_of(Report("now", "a", [QueueReport("a", 1, dead=1)]))).tags
    )
    assert name in page.texts
    assert f"Queues of {name}" in page.texts
    assert json.loads(page.texts[-1])["queues"][0]["queue"] == name


class ReadPage(HTMLParser):
    """The tags and texts of a page, as a browser reads them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[str]]] = []
        self.texts: list[str] = []

    @classmethod
    def read(cls, page: str) -> ReadPage:
        read = cls()
        read.feed(page)
        return read

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, [name for name, _ in attrs]))

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append(data)


def test_without_messages_a_plot_says_so() -> None:
    page = page_of(report_of(QueueReport("orders")))

    assert page.count("<p>None.</p>") == 4
    assert "<svg" not in page


def test_the_table_sums_up() -> None:
    lines = table_text(report_of(ORDERS, RETURNS)).splitlines()

    assert lines[0].split() == ["queue", "ready", "leased", "delayed", "dead", "bytes", "oldest",
                                "oldest", "dead"]  # fmt: skip
    assert lines[1].split() == ["orders", "30", "5", "2", "4", "4,096", "2.0", "h", "90", "s"]
    assert lines[3].split() == ["all", "130", "5", "2", "4", "4,196", "2.0", "h", "90", "s"]

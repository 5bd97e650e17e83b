"""The page of a report: what each plot shows is what the report has."""

from __future__ import annotations

import json
import re

from pyspark_mq.pipeline.page import Bar, page_of, plots_of
from pyspark_mq.pipeline.report import AGES, COUNTS, QueueReport, Report, table_rows, table_text


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

    widths = [float(width) for width in re.findall(r"<rect [^>]*width='([0-9.]+)'", backlog)]

    # returns: 100 ready; orders: 30 ready, 5 leased, 2 delayed.
    assert [round(width / widths[0], 2) for width in widths] == [1.0, 0.3, 0.05, 0.02]


def test_the_page_is_whole_by_itself_and_has_its_data() -> None:
    report = report_of(ORDERS, RETURNS)
    page = page_of(report)

    assert re.findall(r"(?:src|href)=|@import|url\(", page) == []
    data = re.search(r"id='data'>(.*?)</script>", page)
    assert data is not None
    assert json.loads(data[1]) == report.to_dict()
    for row in table_rows(report):
        assert all(f"<td>{cell}</td>" in page for cell in row)


def test_what_a_queue_is_named_is_text_on_the_page() -> None:
    page = page_of(report_of(QueueReport("</script><b>&", ready=1)))

    assert "</script><b>" not in page.replace("</script>\n", "")


def test_a_long_name_is_shortened_beside_its_bar_and_whole_on_it() -> None:
    name = "orders.of-a-shop-that-likes-long-names.v2"
    page = page_of(report_of(QueueReport(name, ready=1)))

    assert f">orders.of-a-shop…ong-names.v2<title>{name}</title></text>" in page


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

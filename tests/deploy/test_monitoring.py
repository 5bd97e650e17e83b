"""deploy/prometheus and deploy/grafana: rules that fire, and no metric that nobody tells."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from typing import Any

import pytest

from tests.support.sources import REPOSITORY, read_table

PROMETHEUS = REPOSITORY / "deploy" / "prometheus"
DASHBOARD: dict[str, Any] = json.loads((REPOSITORY / "deploy" / "grafana" / "mq.json").read_text())
METRIC = re.compile(r"\bmq_[a-z_]+")
DOCUMENTED = {
    name
    for row in read_table("docs/operations.md", "## Metrics")
    for name in METRIC.findall(row[0])
}


def promtool(*arguments: str) -> str:
    """What it prints; it must succeed."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is missing: install the package prometheus")
    done = subprocess.run(
        ["promtool", *arguments], check=False, cwd=PROMETHEUS, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def series_of(name: str) -> str:
    """The metric that a series belongs to."""
    return re.sub(r"_(bucket|sum|count)$", "", name)


def test_rules_fire_when_they_should_and_not_before() -> None:
    assert "SUCCESS" in promtool("test", "rules", "mq.rules.test.yml")


def test_rules_and_configuration_are_valid() -> None:
    promtool("check", "rules", "mq.rules.yml")
    promtool("check", "config", "prometheus.yml", "prometheus-compose.yml")


def test_every_alert_is_tried() -> None:
    alerts = set(re.findall(r"alert: (\w+)", (PROMETHEUS / "mq.rules.yml").read_text()))
    tests = (PROMETHEUS / "mq.rules.test.yml").read_text()
    silent, firing = tests.split("  - name: each trouble")

    assert alerts == set(re.findall(r"alertname: (\w+), .*exp_alerts: \[\]", silent))
    assert alerts == set(re.findall(r"- alertname: (\w+)\n", firing))


def test_rules_name_metrics_that_there_are() -> None:
    named = set(METRIC.findall((PROMETHEUS / "mq.rules.yml").read_text()))

    assert {series_of(name) for name in named} - DOCUMENTED == set()


def test_dashboard_names_metrics_that_there_are() -> None:
    expressions = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    queries = [each["query"]["query"] for each in DASHBOARD["templating"]["list"][1:]]
    named = {name for text in (*expressions, *queries) for name in METRIC.findall(text)}

    assert {series_of(name) for name in named} - DOCUMENTED == set()
    assert len(named) > 10


def test_dashboard_has_no_panel_over_another_and_no_address_of_a_source() -> None:
    places: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        covered = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not covered & places, panel["title"]
        assert panel["datasource"]["uid"] == "${source}"
        places |= covered
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])

"""What `/metrics` says, as a test reads it."""

from __future__ import annotations

import http.client
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families


class Scrape(NamedTuple):
    """The text, and the value of each series by its name and labels."""

    text: str
    values: dict[tuple[str, frozenset[tuple[str, str]]], float]

    def value(self, name: str, **labels: str) -> float:
        return self.values[name, frozenset(labels.items())]

    def by(self, name: str, label: str) -> dict[str, float]:
        """Return the series of a name, summed up by one label."""
        found: dict[str, float] = {}
        for (each, labels), value in self.values.items():
            if each == name:
                key = dict(labels)[label]
                found[key] = found.get(key, 0) + value
        return found


def scrape(port: int, **headers: str) -> Scrape:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", "/metrics", headers=headers)
        answer = connection.getresponse()
        text = answer.read().decode()
        assert answer.status == 200, text
    finally:
        connection.close()
    return read_scrape(text)


def read_scrape(text: str) -> Scrape:
    return Scrape(
        text,
        {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        },
    )

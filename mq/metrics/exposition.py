"""Metrics in the form that Prometheus reads. A mover or reaper loads this module only if it serves
metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.exposition import choose_encoder

from mq import __version__
from mq.config import Address
from mq.errors import ExitCode, StartRefused
from mq.metrics.histogram import Histogram
from mq.metrics.metrics_server import MetricsServer
from mq.metrics.tally import DoneInQueue, MoverCounts, ReaperCounts

Collect = Callable[[], Iterable[Metric]]
"""Returns metrics as they are now."""


class _Collector:
    def __init__(self, collect: Collect) -> None:
        self.collect = collect


def registry_of(*collectors: Collect) -> CollectorRegistry:
    """Return a registry of what `collectors` report, the version, and the resources that the
    process uses."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    for collect in (_build_info, *collectors):
        registry.register(_Collector(collect))
    return registry


def _build_info() -> Iterable[Metric]:
    yield gauges("mq_build_info", "The version of MQ.", ["version"], {(__version__,): 1})


def serve_in_thread(address: Address, collect: Collect) -> Address:
    """Serve `/metrics` beside a blocking process until it ends. Returns the address with the port
    that it got. Raises StartRefused."""
    try:
        server = MetricsServer(address, _answering(registry_of(collect)))
    except (OSError, UnicodeError) as error:  # UnicodeError: it cannot be the name of a host.
        reason = getattr(error, "strerror", None) or error
        raise StartRefused(
            ExitCode.UNAVAILABLE,
            f"cannot listen on {address} for --metrics-port: {reason}; stop what "
            "listens there or choose another port",
        ) from error
    server.start()
    return address._replace(port=int(server.server_port))


def _answering(registry: CollectorRegistry) -> Callable[..., Any]:
    answer = make_wsgi_app(registry)

    def ask(environment: dict[str, Any], start_response: Any) -> Any:
        environment["HTTP_ACCEPT"] = readable_accept(environment.get("HTTP_ACCEPT", ""))
        return answer(environment, start_response)

    return ask


def readable_accept(accept: str) -> str:
    """Return what a client accepts, or nothing if prometheus_client cannot read it: it compares a
    version that is not of digits, such as one in quotes, with numbers."""
    try:
        choose_encoder(accept)
    except TypeError:
        return ""
    return accept


def counter(name: str, help: str, value: float) -> Metric:
    """Return a counter. `name` is without `_total`."""
    return CounterMetricFamily(name, help, value)


def gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help, value)


def gauges(
    name: str, help: str, labels: list[str], values: Mapping[tuple[str, ...], float]
) -> Metric:
    family = GaugeMetricFamily(name, help, labels=labels)
    for key, value in values.items():
        family.add_metric(key, value)
    return family


def message_counters(
    about: Mapping[str, str], activity: Mapping[str, DoneInQueue]
) -> Iterable[Metric]:
    """Yield a counter for each figure that `about` explains, and another one by queue."""
    for name, help in about.items():
        values = {queue: getattr(each, name) for queue, each in activity.items()}
        yield counter(f"mq_messages_{name}", help, sum(values.values()))
        family = CounterMetricFamily(
            f"mq_queue_messages_{name}", f"{help} By queue.", labels=["queue"]
        )
        for queue, value in values.items():
            family.add_metric((queue,), value)
        yield family


def histograms(
    name: str, help: str, labels: list[str], found: Mapping[tuple[str, ...], Histogram]
) -> Metric:
    family = HistogramMetricFamily(name, help, labels=labels)
    for key, histogram in found.items():
        family.add_metric(key, histogram.buckets(), histogram.total)
    return family


def moved(counts: MoverCounts) -> Metric:
    """Return the counter that only a mover has."""
    return counter(
        "mq_mover_moved", "Files with names other than QUEUE:ID that were moved.", counts.moved
    )


def reaped(counts: ReaperCounts) -> Iterable[Metric]:
    """Yield what a reaper counts."""
    yield counter("mq_messages_reaped", "Messages that the reaper unlinked.", counts.reaped)
    yield gauge(
        "mq_reaper_kept_files", "Files that the reaper's last look left for later.", counts.kept
    )

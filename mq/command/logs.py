"""Structured logs on stderr, one line for each event: text for people, JSON for programs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable

import structlog

from mq.command.stdout import printable

LOG_FORMATS = ("text", "json")


_MAX_REPORTED = 10_000


class Once:
    """Passes each name on once for each reason, up to a limit, of which it tells. A problem that is
    found at every look is news only the first time."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report
        self._reported: set[tuple[str, str]] = set()

    def __call__(self, name: str, why: str) -> None:
        if (name, why) in self._reported or len(self._reported) == _MAX_REPORTED:
            return
        self._reported.add((name, why))
        self._report(name, why)
        if len(self._reported) == _MAX_REPORTED:
            self._report("any other", f"{_MAX_REPORTED} were logged: no more until a restart")

    def forget(self, name: str, why: str) -> None:
        """Let this be news again."""
        self._reported.discard((name, why))


def report_left(name: str, why: str) -> None:
    """Log a file that cannot be placed."""
    structlog.get_logger(__name__).warning("file left where it is", name=name, why=why)


class _Named:
    """Adds the process's name to each line."""

    def __init__(self, process: str) -> None:
        self._process = process

    def __call__(
        self, logger: object, method: str, event: structlog.typing.EventDict
    ) -> structlog.typing.EventDict:
        event["process"] = self._process
        return event


class _Line:
    """Makes a line of text of each event. Names that others chose, of files for example, neither
    harm a terminal nor begin a new line."""

    def __init__(self) -> None:
        self._render = structlog.processors.LogfmtRenderer(
            key_order=["time", "level", "process", "event"], bool_as_flag=False
        )

    def __call__(self, logger: object, method: str, event: structlog.typing.EventDict) -> str:
        return printable(self._render(logger, method, event))


def configure_logs(log_format: str, process: str) -> None:
    """Send every log line of this process to stderr, with `process` in it.

    Lines of libraries that use `logging` come out in the same form.
    """
    shared: list[structlog.typing.Processor] = [
        _Named(process),
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
    ]
    is_json = log_format == "json"
    renderer = structlog.processors.JSONRenderer(default=str) if is_json else _Line()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        cache_logger_on_first_use=False,
    )

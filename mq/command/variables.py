"""Environment variables that are probably misspelled. One that nobody knows has no effect, and
nothing else would say so."""

from __future__ import annotations

import os
from difflib import get_close_matches

import structlog

FLAG_VARIABLES = {
    "MQ_ADDRESS", "MQ_ADMIN", "MQ_ADMIN_WRITE", "MQ_ALLOWED_HOST", "MQ_BODY_TIMEOUT", "MQ_CERT",
    "MQ_HEADER_TIMEOUT", "MQ_INSECURE", "MQ_KEEP", "MQ_KEY", "MQ_LOG_FORMAT", "MQ_MAX_BODY",
    "MQ_MAX_CONNECTIONS", "MQ_MAX_QUEUE_MESSAGES", "MQ_MAX_RECEIVES", "MQ_METRICS_ADDRESS",
    "MQ_MIN_FREE", "MQ_MODE", "MQ_MOVER_DELAY", "MQ_MOVER_DESTINATION", "MQ_MOVER_METRICS_PORT",
    "MQ_MOVER_SOURCE", "MQ_PEERS", "MQ_PORT", "MQ_REAPER_METRICS_PORT", "MQ_REAPER_SOURCE",
    "MQ_ROOT", "MQ_SOCKET", "MQ_SOCKET_MODE", "MQ_SQS_ACCOUNT", "MQ_SQS_ADDRESS", "MQ_SQS_ADMIN",
    "MQ_SQS_PORT", "MQ_SQS_REGION", "MQ_SQS_URL", "MQ_TOKEN_FILE", "MQ_VISIBILITY", "MQ_WORKERS",
}  # fmt: skip
"""Those of the flags of server, mover, reaper and gateway: processes may share an environment."""

_OTHERS = {
    "MQ_CLIENT_TOKEN_FILE", "MQ_CONTENT_TYPE", "MQ_MESSAGE_ID", "MQ_NATIVE", "MQ_PARENT_PID",
    "MQ_PROPERTIES", "MQ_PUBLISHED_AT", "MQ_QUEUE", "MQ_RECEIVE_COUNT", "MQ_TALLY_FD", "MQ_TOKEN",
    "MQ_URL",
}  # fmt: skip
"""Those of clients, those that commands of `mqctl exec` find, and those that have no flag."""

_LIKENESS = 0.75
"""How much a name must resemble one of a flag, by `difflib`. Other programs have variables with
this prefix too, and Kubernetes makes some for a service of that name, such as `tcp://10.0.0.11`."""

log = structlog.get_logger(__name__)


def warn_of_misspelled() -> None:
    """Log each variable that is not that of a flag and resembles one. It is taken out of the
    environment, so that the children of `mq --standalone` do not say it again."""
    for name in sorted(os.environ):
        if not name.startswith("MQ_") or name in FLAG_VARIABLES | _OTHERS:
            continue
        nearest = get_close_matches(name, FLAG_VARIABLES, 1, _LIKENESS)
        if nearest and not os.environ[name].startswith("tcp://"):
            log.warning("unknown environment variable", name=name, nearest=nearest[0])
            del os.environ[name]

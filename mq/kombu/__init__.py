"""A transport of kombu, so that Celery has its tasks on a server of MQ: docs/celery.md.

Importing this module makes `mq://HOST:PORT` and `mq+https://HOST:PORT` known to kombu. What any
client of MQ does belongs in `mq.client`.

    what kombu sees     `transport`, `channel`
    messages            `payload`, and `malformed` tasks
    on the way          `receiver`, `prefetch`, `inbox`
    until it is done    `keeper`, `renewer`
    the server          `broker`
"""

from __future__ import annotations

from kombu.transport import TRANSPORT_ALIASES

from mq.kombu.channel import MqChannel
from mq.kombu.transport import MqTransport

__all__ = ["MqChannel", "MqTransport"]

TRANSPORT_ALIASES["mq"] = "mq.kombu:MqTransport"

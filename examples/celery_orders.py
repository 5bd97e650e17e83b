"""Tasks of Celery on a server of MQ, the one at MQ_BROKER, by default mq://127.0.0.1:8080. Start a
worker in this folder:

    pip install 'mq-server[celery]'
    celery -A celery_orders worker

and then order something:

    python celery_orders.py
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery import Celery

import mq.kombu  # noqa: F401 - makes mq:// known

app = Celery("celery_orders", broker=os.environ.get("MQ_BROKER", "mq://127.0.0.1:8080"))
app.conf.task_acks_late = True  # a task whose worker is killed is done by another one
app.conf.task_reject_on_worker_lost = True
app.conf.task_ignore_result = True

ORDERS = Path(os.environ.get("ORDERS", "orders.txt"))


@app.task(bind=True, autoretry_for=(OSError,), retry_backoff=True)
def brew(self: Any, order: str) -> None:
    """Write the order down. If the disk is full it is tried again three times, after up to 1, 2 and
    4 seconds, which it spends on the server."""
    with ORDERS.open("a") as file:
        file.write(f"{order}\n")


if __name__ == "__main__":
    # In a second.
    brew.apply_async(("two coffees",), countdown=1)

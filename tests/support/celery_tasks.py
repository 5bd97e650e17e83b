"""Celery's app of the tests: tasks whose effects are files, in the folder that EFFECTS names."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery

import mq.kombu  # noqa: F401

FOLDER = Path(os.environ.get("EFFECTS", "effects"))

app = Celery("tasks", broker=os.environ.get("BROKER", "mq://127.0.0.1:8080"))
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    broker_transport_options={"visibility_timeout": 3},
    worker_prefetch_multiplier=8,
)


@app.task(bind=True, max_retries=5)  # type: ignore[untyped-decorator]
def leave_a_file(self: Any, number: int) -> None:
    """Leave a file. One task in five fails at first, and is tried again a little later."""
    if number % 5 == 0 and self.request.retries == 0:
        raise self.retry(countdown=0.2)
    with (FOLDER / str(number)).open("a") as file:
        file.write(f"{os.getpid()} {self.request.delivery_info['redelivered']}\n")


@app.task  # type: ignore[untyped-decorator]
def block_until(name: str) -> None:
    """Wait until the file `name`.go exists, and tell that the wait has begun."""
    (FOLDER / f"{name}.began").open("a").write(f"{os.getpid()}\n")
    while not (FOLDER / f"{name}.go").exists():
        time.sleep(0.02)
    (FOLDER / name).touch()


@app.task  # type: ignore[untyped-decorator]
def refuse() -> None:
    """Reject the task, which is not to be tried again."""
    from celery.exceptions import Reject  # noqa: PLC0415

    raise Reject("not for me", requeue=False)

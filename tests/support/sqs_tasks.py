"""Celery's app of the tests on kombu's transport for SQS: tasks whose effects are files, in the
folder that EFFECTS names."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from celery import Celery

FOLDER = Path(os.environ.get("EFFECTS", "effects"))

app = Celery("tasks", broker=os.environ.get("BROKER", "sqs://any:key@127.0.0.1:9324//"))
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    task_ignore_result=True,
    task_default_queue=os.environ.get("QUEUE", "celery"),
    worker_enable_remote_control=False,
    broker_transport_options={
        "is_secure": False,
        "region": "us-east-1",
        "visibility_timeout": 3,
        "wait_time_seconds": 1,
        "polling_interval": 0,
        **json.loads(os.environ.get("TRANSPORT", "{}")),
    },
)


@app.task  # type: ignore[untyped-decorator]
def leave_a_file(name: str) -> None:
    (FOLDER / name).write_text(str(os.getpid()))


@app.task  # type: ignore[untyped-decorator]
def hang_once(name: str) -> None:
    """Tell that it has begun, and hang; the next one to try only leaves a file."""
    began = FOLDER / f"{name}.began"
    if not began.exists():
        began.write_text(str(os.getpid()))
        time.sleep(3600)
    (FOLDER / name).write_text(str(os.getpid()))

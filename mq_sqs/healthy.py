"""Tell whether the server of this container is ready: `mq`, or else the gateway. The image's health
check is this, because a container runs either.

    python -m mq_sqs.healthy [PID]

`mq.daemon.healthy` says the rest.
"""

from __future__ import annotations

from mq.daemon.cli import mq
from mq.daemon.healthy import main
from mq_sqs.cli import mq_sqs

if __name__ == "__main__":
    main((mq, mq_sqs))

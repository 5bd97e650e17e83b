"""A worker: it brews what is ordered, until SIGTERM or Ctrl-C.

    python examples/worker.py

While `brew` runs, the lease is renewed. When it returns, the message is removed. When it raises,
the message comes again: after a second, and twice as long each time. After five receives it is a
dead letter, in the queue `orders.dead`.
"""

from __future__ import annotations

from mq.client import Client, Message


def brew(message: Message) -> None:
    print(f"brewing {message.text()}", flush=True)


def main() -> None:
    with Client() as mq:  # MQ_URL, or http://127.0.0.1:8080
        orders = mq.queue("orders")
        orders.create({"max-receives": 5})
        orders.worker(brew, concurrency=4).run()


if __name__ == "__main__":
    main()

"""mqctl: the queues from a command line, over HTTP or directly on the folders.

    `cli`, `common_flags`   the command line, and the flags that every command has; `arguments`:
                            types of arguments; `completing`: at the tab key
    `commands`              the commands with more to do
    `ways`                  over HTTP, or on the folders
    `screen`                what is printed
    `bench`                 the load generator of `mqctl bench`

What a way needs is imported when it is taken, so that `mqctl --help` is quick. What a message goes
through belongs in `mq.store`, what is said to a server in `mq.client`.
"""

from __future__ import annotations

import signal


def main() -> None:
    on_interrupt = signal.getsignal(signal.SIGINT)
    if on_interrupt is not signal.SIG_IGN:
        # Nothing has begun, so Ctrl-C just ends it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from mq.command.running import run
    from mq.ctl.cli import CTL_EXIT_CODES, mqctl

    signal.signal(signal.SIGINT, on_interrupt)
    run(mqctl, CTL_EXIT_CODES)

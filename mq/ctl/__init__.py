"""mqctl: the queues from a command line, over HTTP or directly on the folders.

One definition of the commands (`commands`), two ways in with the same methods (`by_http`,
`by_root`). What a way needs is imported when it is taken, so that `mqctl --help` is quick.
"""

from __future__ import annotations


def main() -> None:
    from mq.command.flags import run
    from mq.ctl.commands import mqctl
    from mq.errors import CTL_EXIT_CODES

    run(mqctl, CTL_EXIT_CODES)

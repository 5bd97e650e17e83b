"""mqctl: the queues from a command line, over HTTP or directly on the folders.

    the commands            `commands`; `arguments`, `settings`: their arguments and common flags
    with more to do         `sending`, `receiving`, `reading`, `executing`, `transfer`, `moving`,
                            `purging`, `leases`, `queue_settings`, `checking`, `releasing`, `top`
                            `removing`: what was written leaves its queue
    how fast a server is    `benching`, with `bench`
    the two ways in         `access`: their common methods
      over HTTP             `by_http`, `connect`, `answers`
      on the folders        `by_root`, `runner`, `inspect`, `run_as_owner`
    what is printed         `display`; `progress`; `live_screen`, `flow`, `removals`: for `top`
    at the tab key          `completing`

What a way needs is imported when it is taken, so that `mqctl --help` is quick. What a message goes
through belongs in `mq.store`, what is said to a server in `mq.client`.
"""

from __future__ import annotations


def main() -> None:
    from mq.command.running import run
    from mq.ctl.commands import mqctl
    from mq.errors import CTL_EXIT_CODES

    run(mqctl, CTL_EXIT_CODES)

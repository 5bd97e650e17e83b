"""What signals do to a process before it serves, and to one that may be killed anywhere.

This imports nothing that takes long: a command begins with it, before its other imports.
"""

from __future__ import annotations

import os
import signal
import threading

_EXIT_OK = 0


def exit_when_asked() -> None:
    """Let SIGTERM and SIGINT end this process at once with exit code 0, wherever it is. SIGINT is
    ignored if the process was started so, as a shell does with background jobs.

    This is only for processes that may be killed anywhere, as one that is still starting may. They
    end at once because a second signal would hit the interpreter while it shuts down, for example
    when Ctrl-C reaches a child and its parent passes it on.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        if number is signal.SIGTERM or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: os._exit(_EXIT_OK))


def exit_even_in_a_wait() -> None:
    """Do what `exit_when_asked` does, also while the main thread waits for a file system that does
    not answer: no handler of Python's runs before that call returns. A thread takes the signals."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    asked = {signal.SIGTERM} if ignored else {signal.SIGTERM, signal.SIGINT}

    def wait() -> None:
        signal.sigwait(asked)
        os._exit(_EXIT_OK)

    exit_when_asked()
    # Threads that are started later do not get them either.
    signal.pthread_sigmask(signal.SIG_BLOCK, asked)
    try:
        threading.Thread(target=wait, name="signals", daemon=True).start()
    except RuntimeError:  # The system has no thread for it.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, asked)


def fail_when_asked() -> None:
    """Give SIGTERM and SIGINT back what they do to other commands: an exit code of 0 would say that
    this one did what it was asked to do."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

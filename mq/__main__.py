"""The entry point of the command `mq`."""

import signal

from mq.command.signals import exit_when_asked

# The server's own handlers come with it, and its imports take a while. Process 1 of a container
# would not hear a signal without a handler at all.
exit_when_asked()
# What SIGHUP asks to be read again has not been read yet.
signal.signal(signal.SIGHUP, signal.SIG_IGN)

from mq.daemon.cli import main  # noqa: E402

if __name__ == "__main__":
    main()

"""The entry point of the command `mq-sqs`."""

import signal

from mq.command.signals import exit_when_asked

# As in mq.__main__: the imports take a while.
exit_when_asked()
# What SIGHUP asks to be read again has not been read yet.
signal.signal(signal.SIGHUP, signal.SIG_IGN)

from mq_sqs.cli import main  # noqa: E402

if __name__ == "__main__":
    main()

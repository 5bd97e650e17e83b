"""The entry point of the command `mq-sqs`."""

import signal

# What SIGHUP asks to be read again has not been read yet, as in mq.__main__.
signal.signal(signal.SIGHUP, signal.SIG_IGN)

from mq_sqs.cli import main  # noqa: E402

if __name__ == "__main__":
    main()

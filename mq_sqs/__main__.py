"""Where the command `mq-sqs` begins."""

import signal

# As in mq.__main__: what SIGHUP asks to be read again has not been read yet.
signal.signal(signal.SIGHUP, signal.SIG_IGN)

from mq_sqs.cli import main  # noqa: E402

if __name__ == "__main__":
    main()

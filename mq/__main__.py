"""Where the command `mq` begins."""

import signal

# What SIGHUP asks to be read again has not been read yet. Its own handler comes with the server,
# whose imports take a while.
signal.signal(signal.SIGHUP, signal.SIG_IGN)

from mq.daemon.cli import main  # noqa: E402

if __name__ == "__main__":
    main()

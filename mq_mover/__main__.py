"""The entry point of the command `mq-mover`."""

from mq.command.signals import exit_when_asked

# The other imports take a while.
exit_when_asked()

from mq_mover.cli import main  # noqa: E402

if __name__ == "__main__":
    main()

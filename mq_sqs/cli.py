"""The command line of mq-sqs."""

from __future__ import annotations

import re
from typing import Any

import click

from mq import __version__
from mq.command.flags import ADDRESS, Parsed, Port, flag
from mq.command.logs import configure_logs
from mq.command.running import exit_codes_text, run
from mq.command.variables import warn_of_misspelled
from mq.config import Address
from mq.daemon.cli import server_config
from mq.daemon.shared_flags import client_flags, store_flags
from mq_sqs.queues.addresses import Addressing

DEFAULT_PORT = 9324
DEFAULT_ADMIN = Address("127.0.0.1", 9325)

_PLAIN = Addressing()


def _matching(pattern: str, example: str) -> Parsed[str]:
    """Return the type of a text of this form."""

    def parse(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"{text!r}: write it like {example}")
        return text

    return Parsed("text", parse)


@click.command(name="mq-sqs", epilog=exit_codes_text())
@store_flags
@flag("--address", "address", str, "127.0.0.1", "Address to listen on.", variable="MQ_SQS_ADDRESS")
@flag("--port", "port", Port(), DEFAULT_PORT,
      "TCP port; 0 takes a free one, which the log names.", variable="MQ_SQS_PORT")  # fmt: skip
@flag("--region", "region", _matching("[a-z0-9-]{1,32}", "us-east-1"), _PLAIN.region,
      "The region that ARNs name.", variable="MQ_SQS_REGION")  # fmt: skip
@flag("--account", "account", _matching("[0-9]{12}", "000000000000"), _PLAIN.account,
      "The account that ARNs and queue URLs name.", variable="MQ_SQS_ACCOUNT")  # fmt: skip
@flag("--url", "url",
      _matching(r"|https?://[^\s/?#]+(?:/[^\s?#]*)?", "https://sqs.example.org"), "",
      "The beginning of queue URLs; by default the address that the client calls.",
      variable="MQ_SQS_URL")  # fmt: skip
@flag("--admin", "admin", ADDRESS, str(DEFAULT_ADMIN),
      "HOST:PORT to serve the page, health and metrics on; empty or off for none.",
      variable="MQ_SQS_ADMIN")  # fmt: skip
@client_flags
@click.version_option(__version__, message="%(prog)s %(version)s")
def mq_sqs(region: str, account: str, url: str, **fields: Any) -> None:
    """Speak Amazon's SQS on a root of MQ.

    It works on the folders as one more server, beside mq or without it. Like mq it needs the mover
    and the reaper.
    """
    from mq.daemon.server import serve
    from mq_sqs.server import front_maker

    config = server_config(fields)
    configure_logs(config.log_format, "mq-sqs")
    warn_of_misspelled()
    serve(config, None, front_maker(config, Addressing(region, account, url.rstrip("/"))))


def main() -> None:
    run(mq_sqs)

"""What a server lets in, and what it shows of itself: `--token-file`, `--cert` and `--key`."""

from __future__ import annotations

import ssl

import structlog

from mq.config import ServerConfig
from mq.errors import ExitCode, StartRefused
from mq.web.tls import Certificate
from mq.web.tokens import Tokens

log = structlog.get_logger(__name__)


class Credentials:
    """Raises StartRefused if a file is not in order."""

    def __init__(self, config: ServerConfig) -> None:
        if (config.cert is None) != (config.key is None):
            raise StartRefused(ExitCode.USAGE, "--cert and --key belong together; give both")
        self.tokens = None if config.token_file is None else Tokens(config.token_file)
        self._certificate = (
            None
            if config.cert is None or config.key is None
            else Certificate(config.cert, config.key)
        )
        self._warn()

    @property
    def tls(self) -> ssl.SSLContext | None:
        return None if self._certificate is None else self._certificate.context

    def reload(self) -> None:
        """Read the files again. What is not in order is logged, and stays as it was. Blocking."""
        for each in (self.tokens, self._certificate):
            try:
                if each is not None:
                    each.reload()
            except StartRefused as error:
                log.error("not reloaded; the old one stays", why=str(error))
        log.info("reloaded")
        self._warn()

    def _warn(self) -> None:
        if self.tokens is not None and self.tokens.short:
            log.warning("short tokens can be guessed", names=" ".join(self.tokens.short))

"""Who may use a server, and how the server shows who it is: `--token-file`, `--cert` and `--key`,
read together."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from mq.config import ServerConfig
from mq.daemon.tls import Certificate
from mq.daemon.token_file import TokenFile
from mq.errors import ExitCode, StartRefused
from mq.web.tokens import Tokens

log = structlog.get_logger(__name__)


class Credentials:
    """The token file and the certificate of a server. Raises StartRefused if a file is not in
    order."""

    def __init__(self, config: ServerConfig) -> None:
        if (config.cert is None) != (config.key is None):
            raise StartRefused(ExitCode.USAGE, "--cert and --key belong together; give both")
        self._token_file = None if config.token_file is None else TokenFile(config.token_file)
        self.certificate = (
            None
            if config.cert is None or config.key is None
            else Certificate(config.cert, config.key)
        )
        self._also: dict[str, Callable[[], None]] = {}

    @property
    def tokens(self) -> Tokens | None:
        """The tokens, in the same object after each reload."""
        return None if self._token_file is None else self._token_file.tokens

    def reload_too(self, what: str, reload: Callable[[], None]) -> None:
        """Call `reload` too, whenever the files are read again. It changes nothing if it raises
        StartRefused."""
        self._also[what] = reload

    def reload(self) -> None:
        """Read each of the files again. One that is not in order is logged, and what it said before
        still applies. Blocking."""
        own = {"tokens": self._token_file, "certificate": self.certificate}
        reloads = {what: each.reload for what, each in own.items() if each is not None}
        for what, reload in (reloads | self._also).items():
            try:
                reload()
            except StartRefused as error:
                log.error("not reloaded; the old one stays", what=what, why=str(error))
            else:
                log.info("reloaded", what=what)

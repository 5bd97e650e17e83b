"""Who may use a server, and how the server shows who it is: `--token-file`, `--cert` and `--key`,
read together."""

from __future__ import annotations

from typing import Protocol

import structlog

from mq.config import ServerConfig
from mq.daemon.tls import Certificate
from mq.daemon.token_file import TokenFile
from mq.errors import ExitCode, StartRefused
from mq.web.tokens import Tokens

log = structlog.get_logger(__name__)


class Reloadable(Protocol):
    """What is read from a file. `reload` raises StartRefused, and changes nothing then."""

    def reload(self) -> None: ...


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
        self._also: dict[str, Reloadable] = {}

    @property
    def tokens(self) -> Tokens | None:
        """The tokens, in the same object after each reload."""
        return None if self._token_file is None else self._token_file.tokens

    def reload_too(self, what: str, each: Reloadable) -> None:
        """Reload `each` too, whenever the files are read again."""
        self._also[what] = each

    def reload(self) -> None:
        """Read each of the files again. One that is not in order is logged, and what it said before
        still applies. Blocking."""
        own = {"tokens": self._token_file, "certificate": self.certificate}
        for what, each in (own | self._also).items():
            if each is None:
                continue
            try:
                each.reload()
            except StartRefused as error:
                log.error("not reloaded; the old one stays", what=what, why=str(error))
            else:
                log.info("reloaded", what=what)

"""The settings of the processes, and the limits that several rooms share. A room's own limits are
in the room. Every limit has a name with its unit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

KIB = 1024
MIB = 1024 * KIB
SECOND_NS = 1_000_000_000

SMALL_BODY_BYTES = 128 * KIB
"""Up to this size the committer handles a body in memory; a worker streams a larger one."""

SMALL_TEXT_BYTES = 64 * KIB
"""Up to this size the event loop parses a batch and writes the lines of an answer; a worker does it
for larger ones."""

CHUNK_BYTES = 512 * KIB
"""How much of a large body one call of a worker carries."""

MAX_WAIT_SECONDS = 60
"""How long a receive may wait for a message."""

MAX_ANSWER_MESSAGES = 1000
"""How many messages the answer to a receive or a peek has at most."""

MAX_QUEUES = 64
"""From how many queues one receive may take, and to how many one publish may go."""

MAX_BATCH_LINES = 1000
MAX_BATCH_BYTES = 16 * MIB
"""How many messages one batch publishes at most, and how many bytes its lines have together."""

MAX_REMOVALS = 200
"""How many messages one request removes at most."""

MAX_MOVES = 1000
"""How many messages one request moves from one queue to another at most."""

MAX_VISIBILITY_SECONDS = 30 * 86_400
MAX_DELAY_SECONDS = 365 * 86_400

MAX_CONTENT_TYPE_BYTES = 255
DEFAULT_CONTENT_TYPE = "application/octet-stream"

MAX_REQUEST_LINE_BYTES = 8190
MAX_HEAD_BYTES = 16 * KIB
"""How long a whole head may be, and a body's chunk extensions and trailers together."""

MAX_TOKEN_FILE_BYTES = 256 * KIB
MIN_TOKEN_CHARACTERS = 16
"""A shorter token can be guessed, and is never accepted."""

MAX_METRIC_QUEUES = 500
"""This many queues have their own metrics, in the order of their names; the others share one."""

MAX_SPARK_MESSAGE_BYTES = 1024 * MIB
"""Of a longer message Spark could not make a row."""

DEDUPLICATION_SECONDS = 300
"""How long a FIFO queue knows what was sent, and how long the reaper keeps that at least."""

FOLDER_LOCK_SECONDS = 1.0
PURGE_LOCK_SECONDS = 10.0
"""How long operations wait for other processes before they answer 503: one that makes or deletes a
queue, or binds a unix socket, for others that do so; a purge and other users of its queue for each
other."""

SWEEP_SECONDS = 5.0
"""How often a server looks for what a crash left."""

RELIST_WAITING_SECONDS = 1.0
RELIST_PAUSE_FACTOR = 50
"""How often an index is compared with its folder where no events come; the pause after a listing,
as a multiple of its time."""

DEFAULT_URL = "http://127.0.0.1:8080"
"""Where `mqctl` looks for a server."""

CLIENT_TIMEOUT_SECONDS = 60.0
"""How long `mqctl` and `mq.client` wait for a server to take or send the next bytes."""

CLIENT_RETRY_SECONDS = 60.0
CLIENT_BACKOFF_SECONDS = (0.1, 5.0)
"""How long a client tries again while there is no answer, or one that says later; its pauses."""

WORKER_WAIT_SECONDS = 20.0
"""How long one request of a worker waits for a message."""

WORKER_SHORT_WAIT_SECONDS = 2.0
"""How long a request of a worker waits over TLS and unix sockets, where a worker that stops lets
the request finish."""

WORKER_STOP_SECONDS = 5.0
"""How long a worker that stops waits for answers that are under way before it cuts them off."""


class Address(NamedTuple):
    """An address to listen on, or to connect to."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


DEFAULT_ADMIN = Address("127.0.0.1", 8081)
"""The admin listener. If another process has this address, the server runs without one; any other
address must be free."""


@dataclass(frozen=True, slots=True)
class ServerConfig:
    """The settings of one server. `min_free_bytes` None means the default floor. An empty `address`
    means no listener, and so does None for `admin` or a path."""

    root: Path = Path("/tmp/mq")
    address: str = "127.0.0.1"
    port: int = 8080
    workers: int = 8
    peers: int = 0
    visibility_seconds: float = 30.0
    max_body_bytes: int = 256 * MIB
    max_receives: int = 0
    max_queue_messages: int = 0
    max_connections: int = 10_000
    header_timeout_seconds: float = 30.0
    body_timeout_seconds: float = 60.0
    min_free_bytes: int | None = None
    mode: int = 0o700
    log_format: str = "text"
    reuse_port: bool = False
    socket: Path | None = None
    socket_mode: int = 0o600
    token_file: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    admin: Address | None = DEFAULT_ADMIN
    admin_write: bool = False
    # The server's name in deploy/compose.yaml. No domain has a name without a dot.
    allowed_hosts: tuple[str, ...] = ("mq",)
    insecure: bool = False


@dataclass(frozen=True, slots=True)
class MoverConfig:
    """The settings of one mover. `max_receives` 0 means no dead letters. After errors of the disk
    it tries again every `retry_seconds`."""

    source: Path
    destination: Path
    delay_seconds: float = 0.0
    max_receives: int = 0
    rescan_seconds: float = 30.0
    retry_seconds: float = 1.0


@dataclass(frozen=True, slots=True)
class ReaperConfig:
    """The settings of one reaper. It keeps a removed message for `keep_seconds` after its removal.
    After an error of the disk it tries again after `retry_seconds`."""

    source: Path = Path("/tmp/mq/remove")
    keep_seconds: float = 0.0
    rescan_seconds: float = 5.0
    retry_seconds: float = 1.0
    batch_files: int = 1000
    pause_seconds: float = 0.05

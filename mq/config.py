"""Settings and limits: the only place with defaults. Every limit has a name with its unit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

KIB = 1024
MIB = 1024 * KIB
SECOND_NS = 1_000_000_000

SMALL_BODY_BYTES = 64 * KIB
"""Up to this size the committer handles a body in memory; a worker streams a larger one."""

CHUNK_BYTES = 512 * KIB
"""How much of a large body one call of a worker carries."""

FEW_UNSYNCED = 4
"""Up to this many folders and one file are synced one by one. For more, one syncfs is cheaper, even
if others write 20 MB/s to the same file system: three new files take 1.6 ms, and one syncfs 0.9."""

MAX_ROUND_OPERATIONS = 512
MAX_PENDING_OPERATIONS = 8192
"""How many operations share one barrier, and how many may wait; for more the server answers 503."""

MAX_WAIT_SECONDS = 60
MAX_WAITING_REQUESTS = 10_000
"""How long a fetch may wait for a message, and how many may; for more the server answers 503."""

MAX_FETCH_MESSAGES = 1000
MAX_FETCH_BYTES = 16 * MIB
"""How much a fetch with `max` returns at most: this many messages, and this many bytes of
bodies, but at least one message."""

MAX_ANSWERS_BYTES = 256 * MIB
"""How much memory the answers to fetches with `max` take together, until clients have read them."""

SWEEP_SECONDS = 5.0
HINDERED_SWEEP_SECONDS = 1.0
"""How often a server looks for what a crash left, and how soon after an error of the disk."""

RELIST_SECONDS = 30.0
RELIST_WAITING_SECONDS = 1.0
RELIST_PAUSE_FACTOR = 50
DRAIN_SECONDS = 0.1
"""How often an index is compared with its folder, whatever inotify said, and how often where no
events come; the pause after a listing, as a multiple of its time; how long events may wait."""

MAX_OPEN_QUEUES = 1024
"""How many folders of queues stay open: at most an eighth of the files that a process may open."""

DEDUPLICATION_SECONDS = 300
"""How long a FIFO queue knows what was sent, and how long the reaper keeps that at least."""

BUSY_WAIT_SECONDS = 0.05
FOLDER_LOCK_SECONDS = 1.0
PURGE_LOCK_SECONDS = 10.0
"""How long operations wait for other processes before they answer 503: one on a message for its
lock; one that makes or deletes a queue, or binds a unix socket, for others that do so; a purge and
other users of its queue for each other."""

RECOVERY_BACKOFF_SECONDS = (0.1, 2.0)
"""The first and the longest pause between two tries to reopen a store whose sync failed."""

FIRST_REQUEST_SECONDS = 1.0
SHUTDOWN_SECONDS = 10.0
"""How long a stopping server waits for a request that is about to arrive, and for one to finish."""

CLAIM_MESSAGES = 100_000
MAX_SPARK_MESSAGE_BYTES = 1024 * MIB
"""How many messages a batch of a Spark stream has at most, unless the query sets another limit:
its driver holds their names in memory. Of a longer message Spark could not make a row."""

STAGE_KEEP_SECONDS = 86_400
STAGE_LOCK_SECONDS = 60.0
"""What a Spark job has staged is given up if nothing was staged or committed for this time; how
long a commit waits for another process that rolls the same batch forward."""

DEFAULT_URL = "http://127.0.0.1:8080"
"""Where `mqctl` looks for a server."""

CLIENT_TIMEOUT_SECONDS = 60.0
"""How long `mqctl` and `mq.client` wait for a server to take or send the next bytes."""

CLIENT_CONNECT_SECONDS = 10.0
"""How long they wait for a connection."""

CLIENT_RETRY_SECONDS = 60.0
CLIENT_BACKOFF_SECONDS = (0.1, 5.0)
"""How long a client tries again while there is no answer, or one that says later; its pauses."""

CLIENT_GIVE_BACK_SECONDS = 2.0
"""How long a client tries to give back a message whose handling failed. If it cannot, the message
returns when its lease ends."""

CLIENT_IDLE_SECONDS = 60.0
"""A connection that was idle for this time is not used again: servers close theirs a bit later."""

CLIENT_SLOWEST_BYTES_PER_SECOND = 64 * KIB
"""A client gives up a body that is sent more slowly than this."""

CLIENT_TOKEN_SECONDS = 3.0
"""How long a request whose token was refused waits for another token while the file of the token is
missing or empty: it may be just being written."""

CLIENT_CLOCK_SKEW_SECONDS = 2.0
"""If the clocks differ by more, the ids that a client makes follow the server's clock."""

WORKER_WAIT_SECONDS = 20.0
"""How long one request of a worker waits for a message."""

WORKER_SHORT_WAIT_SECONDS = 2.0
"""How long a request of a worker waits over TLS and unix sockets, where a worker that stops lets
the request finish."""

WORKER_STOP_SECONDS = 5.0
"""How long a worker that stops waits for answers that are under way before it cuts them off."""

WORKER_BACKOFF_SECONDS = (1.0, 300.0)
"""How long a worker hides a message after the first failure, and at most."""

FSCK_SETTLE_SECONDS = 2.0
"""After this time `mqctl fsck` looks again at what may be a move, deletion or upload under way."""

MAX_LINE_BYTES = 384 * MIB
"""The longest line that `import` takes: a body of the largest usual size in base64."""

VSQS_RESCAN_SECONDS = 1.0
"""How often a waiting VSQS queue lists its folder where no file system events come."""

VSQS_MAX_LOOKS = 8
"""How often a VSQS queue is listed for one message before the message counts as gone, where a
listing is not as of one moment and the folder changes each time."""

VSQS_NEW_SECONDS = 300.0
"""A VSQS message that is being written, but was not for this time, was left by a crash."""

VSQS_MAX_LEAD_SECONDS = 1.0
VSQS_LEAD_PAUSE_SECONDS = 0.05
"""If more messages are published to a VSQS queue than there are names, a publisher waits for the
clock, one pause at most. If the names are ahead of the clock by more than the first value, the
clock was set back, and publishers do not wait."""

MIN_BODY_BYTES_PER_SECOND = 1024
"""A body that comes more slowly than this over `--body-timeout` is cut off; so is an answer that
its client reads more slowly."""

UNREAD_LOOK_SECONDS = 5.0
RESET_SECONDS = 1.0
"""How often the server looks for answers that are not read, and how long a client that has closed
its own direction has to refuse one."""

MAX_HEADERS = 64
MAX_HEADER_BYTES = 4096
MAX_REQUEST_LINE_BYTES = 8190
MAX_HEAD_BYTES = 16 * KIB
"""How long a header that is not a property may be; a whole head; and a body's chunk extensions and
trailers together."""

RESERVED_DESCRIPTORS = 4096
MAX_ADMIN_CONNECTIONS = 100
"""Descriptors that are kept for files, at most half of all; each connection takes two others."""

KEEPALIVE_SECONDS = 75.0
"""How long an idle connection stays open."""

MAX_BATCH_LINES = 1000
MAX_BATCH_BYTES = 16 * MIB
"""How many messages one batch publishes at most, and how many bytes its lines have together."""

MAX_BATCHES_AT_ONCE = 4
"""This many batches are in memory and published at the same time; others wait."""

MAX_REMOVALS = 200
"""How many messages one request removes at most."""

OWN_ID_WAIT_SECONDS = 10.0
"""How long a publish waits for another one of the same id before it answers 503."""

MAX_DONE_MESSAGES = 200_000
"""A server knows the ids of this many messages that Spark is done with, the newest ones: 20 MB."""

MAX_DELAY_SECONDS = 365 * 86_400

MAX_KNOWN_HOSTS = 256
"""This many values of the header `Host` are parsed once and remembered."""

MAX_TOKEN_FILE_BYTES = 256 * KIB
MIN_TOKEN_CHARACTERS = 16
"""A shorter token can be guessed, and is never accepted."""

TLS_HANDSHAKE_SECONDS = 10.0
"""How long a client has for its TLS handshake."""

MAX_METRIC_QUEUES = 500
"""This many queues have their own metrics, in the order of their names; the others share one."""

SURVEY_PAUSE_FACTOR = 20
"""A count of all messages that took T is not repeated within this many times T, however often
metrics are asked for: counting takes a twentieth of one processor at most."""

MAX_VISIBILITY_SECONDS = 30 * 86_400
MAX_STAMP_AHEAD_NS = 400 * 86_400 * SECOND_NS
"""A due time further ahead than this comes from a broken clock, and counts as due now."""

MAX_PLAUSIBLE_AHEAD_NS = 86_400 * SECOND_NS
MAX_PLAUSIBLE_RECEIVES = 1_000_000_000
"""A seal with a larger count was damaged: 1,000 receives a second take eleven days to reach it."""

MAX_CONTENT_TYPE_BYTES = 255
DEFAULT_CONTENT_TYPE = "application/octet-stream"

MAX_MOVES = 1000
"""How many messages one request moves from one queue to another at most."""

MIN_FREE_BYTES = 16 * MIB
MIN_FREE_FRACTION = 0.01
MIN_FREE_INODES = 1000
"""The floors of free space and free inodes, or a hundredth of a smaller file system."""


class Address(NamedTuple):
    """An address to listen on."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


DEFAULT_ALLOWED_HOSTS = ("mq",)
"""The server's name in deploy/compose.yaml. No domain has a name without a dot."""

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
    allowed_hosts: tuple[str, ...] = DEFAULT_ALLOWED_HOSTS
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


STANDALONE_KEEP_SECONDS = 60.0
"""`--keep` of the reaper that `mq --standalone` starts."""

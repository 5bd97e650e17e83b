"""Claims: the messages that a Spark query has taken out of their queues, a set for each batch.

    spark/claims/GROUP/
      query.ID.N                the query that the group belongs to, and the batch it began after
      driver.ID                 the process that works for it
      floor.N                   batches up to N are done
      N.open.ID/PART/QUEUE:ID   batch N while it is claimed
      N/PART/QUEUE:ID           sealed: this folder is what batch N is, until it is done
      N.unsynced/PART/QUEUE:ID  done, and kept: `letting_go` says why

All state is in names, and each change is one rename. A new driver renames `driver.ID` and the open
folders of those before it: their next rename finds nothing and fails, so they are fenced off, dead
or alive. An ID begins with a number, one more than that of the driver before, so that one that
wakes up knows which claims are later ones. The seal does not replace, so of two drivers one seals
batch N, and both read the same N. Spark's checkpoint holds nothing but N.

A sealed batch never changes. It leaves by one rename, after the floor is durable; so a batch that
is above the floor and not there was taken away from outside, and is an error, never an empty batch.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable

from mq.disk.files import HIDDEN
from mq.errors import ClaimError
from mq.lifecycle import Folder
from mq.names import parse_file_name
from mq.spool.message.held import Lost
from mq.spool.removed_folders import leave_to_reaper
from mq.spool.rolling import to_queue
from mq.spool.sets import make_set, remove_empty_set
from mq.spool.spark.claiming import Claim
from mq.spool.spark.group_owner import NEW_FOLDER, NOBODY, Owner
from mq.spool.spark.letting_go import let_go, unsynced_error, unsynced_in, unsynced_name
from mq.spool.spark.marker_files import Markers, parse_number
from mq.spool.spark.settle import bring
from mq.spool.spool import Spool

CLAIMS = "claims"
_OR_OF_ANOTHER = ", or the checkpoint is of another group or root: no query has read with this one"

_OPEN = re.compile(r"[0-9]+\.open\.([A-Za-z0-9-]+)")
_TURN = re.compile(r"t([0-9]{1,18})-")


def _turn(driver: str) -> int:
    """Return the number of a driver among those of its group, or 0 if it has none."""
    found = _TURN.match(driver)
    return int(found[1]) if found else 0


class Group:
    """One group's folder, for the driver of its query or for a process that gives claims back.

    `driver` is this process. It is the driver of the group once it has called `fence`, which gives
    it a turn after all earlier ones. Methods raise ClaimError when another driver has taken over,
    and OSError.
    """

    def __init__(self, spool: Spool, name: str, driver: str) -> None:
        self._spool = spool
        self.name = name
        self.driver = self._process = driver
        self._path = f"{CLAIMS}/{name}"
        self._markers = Markers(spool, self._path)

    def exists(self) -> bool:
        return self._spool.exists(Folder.SPARK, self._path)

    def make(self) -> None:
        """Make the group where it is missing, whole or not at all."""
        if self.exists():
            return
        half_made = f"{CLAIMS}/{HIDDEN}{self.name}.{uuid.uuid4()}"
        self._spool.make_folders(Folder.SPARK, CLAIMS, half_made)
        markers = Markers(self._spool, half_made)
        for kind, value in (("query", f"{NOBODY}.0"), ("driver", NOBODY), ("floor", "0")):
            markers.make(kind, value)
        try:
            self._spool.rename_within(Folder.SPARK, half_made, self._path)
        except FileExistsError:
            leave_to_reaper(self._spool, Folder.SPARK, half_made, self.name)

    # Who

    def fence(self) -> int:
        """Become the driver. Earlier drivers are fenced off, and what they had open is given back.
        Returns how many messages were given back."""
        while True:
            if not (found := self._markers.values("driver")):
                # A person took it away. The open claims say whose turn it was.
                drivers = [name.partition(".open.")[2] for name in self.open_claims()]
                self._markers.make("driver", max(drivers, key=_turn, default=NOBODY))
                continue
            before = max(found, key=_turn)
            self.driver = f"t{_turn(before) + 1}-{self._process}"
            if self._markers.change("driver", before, self.driver):
                return self.give_back_open()

    def require_driver(self) -> None:
        # A crash may have left the marker of an earlier driver beside that of the next one.
        if max(self._markers.values("driver"), key=_turn, default=NOBODY) != self.driver:
            raise self._fenced()

    def _fenced(self) -> ClaimError:
        return ClaimError(
            f"group {self.name}: another driver has taken over; only one source of one query at a "
            "time can read with a group; give each its own group, or stop the other query"
        )

    def owner(self) -> Owner:
        query, _, start = self._values("query")[0].rpartition(".")
        return Owner(query, self._number("query", start))

    def take_for(self, owner: Owner, takes_over: bool) -> None:
        """Make the group belong to that query. If it belongs to another one, this raises ClaimError
        unless `takes_over`. From a query without a name any other takes it: that may be the same
        one."""
        while not (found := self.owner()).admits(owner):
            if found.is_known() and not takes_over:
                raise self.taken(found)
            old, new = f"{found.query}.{found.start}", f"{owner.query}.{owner.start}"
            self._markers.change("query", old, new)

    def taken(self, found: Owner) -> ClaimError:
        whose = (
            f"query {found.query}, and this is another one" if found.is_known() else "another query"
        )
        return ClaimError(
            f"group {self.name} belongs to {whose}: its "
            "checkpoint is new. Go on with the old checkpoint, choose another group, or set the "
            "option takeover=true; what the old query had read and not finished is then read "
            f"again. {NEW_FOLDER}"
        )

    # How far

    def floor(self) -> int:
        return max(self._number("floor", each) for each in self._values("floor"))

    def sealed(self) -> list[int]:
        """Return the numbers of the sealed batches, in order."""
        numbers = map(parse_number, self._names())
        return sorted(number for number in numbers if number is not None)

    def unsynced(self) -> list[int]:
        """Return the numbers of the batches that are done and kept, in order."""
        return unsynced_in(self._names())

    def is_sealed(self, batch: int) -> bool:
        return self._spool.exists(Folder.SPARK, f"{self._path}/{batch}")

    def require_sealed(self, batch: int) -> None:
        if not self.is_sealed(batch):
            is_unread = self.owner().query == NOBODY
            raise ClaimError(
                f"group {self.name}: batch {batch} is not there: {self._spool.root}/spark/"
                f"{self._path}/{batch} was taken away, by `mqctl release --force` or by a person"
                f"{_OR_OF_ANOTHER if is_unread else ''}; to go on without it start with a new "
                f"checkpoint and the option takeover=true. {NEW_FOLDER}"
            )

    def finish(self, batch: int, archives: bool) -> None:
        """Move the messages of every batch up to this one to `remove` or to the archive: they are
        done.

        The floor is durable before they go, and with it what the sink has written; each batch goes
        in one rename. A crash in between leaves the others to the next call. Raises ClaimError if
        they cannot be made durable, and from then on until a person has decided about them.
        """
        if unsynced := self.unsynced():
            raise unsynced_error(self._spool, self._path, unsynced[0])
        while (floor := self.floor()) < batch:
            missing = next((n for n in range(floor + 1, batch + 1) if not self.is_sealed(n)), None)
            if missing is None:
                self._markers.change("floor", str(floor), str(batch))
            elif self.floor() == floor:  # Otherwise another driver has just finished it.
                self.require_sealed(missing)
        done = [each for each in self.sealed() if each <= batch]
        if done:
            let_go(self._spool, self._path, done, archives)

    # Batches

    def begin(self, batch: int, parts: int) -> Claim:
        """Open batch N. Raises ClaimError if this driver is fenced off."""
        path = f"{self._path}/{batch}.open.{self.driver}"
        try:
            fd = make_set(self._spool, Folder.SPARK, path)
            if isinstance(fd, Lost):
                raise self._fenced()
            self._spool.files.close(fd)
            # The folder exists by now, so a later driver finds it and renames it.
            self.require_driver()
            self._spool.make_folders(Folder.SPARK, *(f"{path}/{part}" for part in range(parts)))
        except FileNotFoundError:
            raise self._fenced() from None
        except ClaimError:
            remove_empty_set(self._spool, Folder.SPARK, path)
            raise
        return Claim(self._spool, path, f"{self._path}/{batch}", self._fenced)

    def parts(self, batch: int) -> list[str]:
        """Return the parts of a sealed batch that hold messages, from the root's `spark` on."""
        self.require_sealed(batch)
        path = f"{self._path}/{batch}"
        numbers = map(parse_number, self._spool.names_below(Folder.SPARK, path))
        parts = sorted(number for number in numbers if number is not None)
        return [part for n in parts if self._holds_messages(part := f"{path}/{n}")]

    def _holds_messages(self, part: str) -> bool:
        return any(map(parse_file_name, self._spool.names_below(Folder.SPARK, part)))

    def sync_sealed(self) -> None:
        """Sync what an earlier driver sealed or finished: it may not be durable yet."""
        self._spool.files.sync_file_system(self._spool.fd(Folder.SPARK))

    def open_claims(self) -> list[str]:
        return [name for name in self._names() if _OPEN.fullmatch(name)]

    def give_back_open(self) -> int:
        """Give back what this driver and earlier ones left open. Returns how many messages."""
        return sum(self._give_back(name) for name in self.open_claims() if self._is_no_later(name))

    def _is_no_later(self, claim: str) -> bool:
        """Return whether a claim is of this driver or an earlier one. This driver may have slept,
        and has no right to what a later one claims."""
        return _turn(claim.partition(".open.")[2]) <= _turn(self.driver)

    def give_back_sealed(self, batches: Iterable[int]) -> int:
        """Give back these sealed batches too. A query that has read them does not learn of it."""
        return sum(self._give_back(str(batch)) for batch in batches)

    def _give_back(self, name: str) -> int:
        """Set the folder aside under a name that no other claim has. Files that are not messages
        may stay in it."""
        batch = name.partition(".")[0]
        fenced = f"{self._path}/{batch}.open.{self.driver}-{uuid.uuid4().hex[:8]}"
        try:
            self._spool.rename_within(Folder.SPARK, f"{self._path}/{name}", fenced)
        except FileNotFoundError:
            return 0
        given_back = 0
        while some := self._empty(fenced):
            # A driver that was fenced off may have been in the middle of a rename.
            given_back += some
        return given_back

    def _empty(self, path: str) -> int:
        """Give back what an open claim holds, and remove its folder. Returns how many messages. One
        whose id the queue has again, with another body, is left to the next driver."""
        return bring(self._spool, path, to_queue, lambda member: f"{path}/{member}").placed

    def give_back_unsynced(self) -> int:
        """Give back the batches that are done and kept. The sink may have some of their
        messages."""
        return sum(self._give_back(unsynced_name(batch)) for batch in self.unsynced())

    # Names

    def _names(self) -> list[str]:
        return self._spool.names_below(Folder.SPARK, self._path)

    def _values(self, kind: str) -> list[str]:
        values = self._markers.values(kind)
        if not values:
            raise self._damaged(f"no {kind}.*")
        return values

    def _number(self, kind: str, text: str) -> int:
        number = parse_number(text)
        if number is None:
            raise self._damaged(f"a {kind}.* that does not end with a number")
        return number

    def _damaged(self, what: str) -> ClaimError:
        return ClaimError(
            f"group {self.name}: {self._spool.root}/spark/{self._path} has {what}; it is damaged: "
            "give its messages back with `mqctl release --force`, then move it away"
        )

"""The rows: one for each operation of the document's table, each run of it another one of its kind.

To add one, write a function that plays on a scene, and put it in ROWS. What it chooses it takes
from a generator that starts with the number of the run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.crash.enumeration.acting import Chance
from tests.crash.enumeration.ending import (
    delete_hindered,
    delete_queue,
    delete_twice,
    first_start,
    make_queue,
    make_queue_with_settings,
    purge,
    purge_folder,
    purge_ready,
    reap,
    remove,
    remove_at_once,
    remove_twice,
    remove_what_is_taken,
)
from tests.crash.enumeration.handing_over import (
    end_queue_of_handover,
    hand_over,
    hand_over_late,
    settle_handovers,
)
from tests.crash.enumeration.interplay import failing_sync, mixed, two_servers
from tests.crash.enumeration.leasing import (
    by_id,
    dead_letter,
    receive,
    receive_at_once,
    receive_many,
    redeliver,
    release,
    release_by_id,
    set_aside,
)
from tests.crash.enumeration.moving import move_by_id, move_ready, move_twice, redrive
from tests.crash.enumeration.publishing import (
    deliver,
    deliver_batches,
    deliver_batches_hindered,
    publish_batches,
    publish_delayed,
    publish_few,
    publish_large,
    publish_left_of_batches,
    publish_many,
    publish_own_ids,
    publish_with_properties,
)
from tests.crash.enumeration.recorder import EXT4, MODERN, OLD, PLAIN, Abilities
from tests.crash.enumeration.scene import Scene
from tests.crash.enumeration.several import (
    deliver_left_to_several,
    end_one_of_several,
    publish_to_several,
)
from tests.crash.enumeration.visibility import change_visibility

Play = Callable[[Scene, Chance], None]


class Row(NamedTuple):
    """One kind of run."""

    name: str
    play: Play
    abilities: Abilities = MODERN
    max_receives: int = 0


ROWS = (
    Row("publish, few at once", publish_few),
    Row("publish, many at once", publish_many),
    Row("publish, many at once, ext4", publish_many, EXT4),
    Row("publish, a large body", publish_large),
    Row("publish, with properties", publish_with_properties),
    Row("publish, no attributes", publish_few, PLAIN),
    Row("publish, no unnamed files", publish_few, OLD),
    Row("publish, delayed", publish_delayed),
    Row("publish, delayed, no attributes", publish_delayed, PLAIN),
    Row("publish, own ids", publish_own_ids),
    Row("publish, own ids that a batch left", publish_left_of_batches),
    Row("publish, batches", publish_batches),
    Row("publish, batches, no attributes", publish_batches, PLAIN),
    Row("deliver what was left of batches", deliver_batches),
    Row("deliver what was left of batches, a call fails", deliver_batches_hindered),
    Row("receive", receive),
    Row("receive, no attributes", receive, PLAIN),
    Row("receive many", receive_many),
    Row("receive many, no attributes", receive_many, PLAIN),
    Row("receive, several at once", receive_at_once),
    Row("receive, several at once, no attributes", receive_at_once, PLAIN),
    Row("receive, several at once, no renames without replacing", receive_at_once, OLD),
    Row("take by id, prolong a lease", by_id),
    Row("take by id, no attributes", by_id, PLAIN),
    Row("change visibility", change_visibility),
    Row("change visibility to the dead letters", change_visibility, max_receives=1),
    Row("redeliver", redeliver),
    Row("receiver went away", release),
    Row("release by id", release_by_id),
    Row("release by id to the dead letters", release_by_id, max_receives=1),
    Row("dead letter", dead_letter, max_receives=1),
    Row("dead letter after two", dead_letter, max_receives=2),
    Row("move", move_ready),
    Row("move, no attributes", move_ready, PLAIN),
    Row("move by id", move_by_id),
    Row("move by id, by two servers", move_twice),
    Row("redrive", redrive),
    Row("remove", remove),
    Row("remove, no attributes", remove, PLAIN),
    Row("remove, several at once", remove_at_once),
    Row("remove, by two servers", remove_twice),
    Row("remove what another server purges or deletes", remove_what_is_taken),
    Row("reap", reap),
    Row("make a queue", make_queue),
    Row("make a queue with settings", make_queue_with_settings),
    Row("make a queue with settings, no unnamed files", make_queue_with_settings, OLD),
    Row("delete a queue", delete_queue),
    Row("delete a queue, no renames without replacing", delete_queue, OLD),
    Row("delete a queue, a move fails", delete_hindered),
    Row("delete a queue, by two servers", delete_twice),
    Row("purge a queue", purge),
    Row("purge a queue, what is ready", purge_ready),
    Row("purge a queue, by its folder", purge_folder),
    Row("purge a queue, no attributes", purge, PLAIN),
    Row("purge a queue, no renames without replacing", purge, OLD),
    Row("deliver what was left", deliver),
    Row("set aside", set_aside),
    Row("publish to several queues", publish_to_several),
    Row("publish to several queues, no attributes", publish_to_several, PLAIN),
    Row("deliver what was left to several queues", deliver_left_to_several),
    Row("delete or purge one of several queues", end_one_of_several),
    Row("delete or purge one of several, no renames without replacing", end_one_of_several, OLD),
    Row("hand over", hand_over),
    Row("hand over, no renames without replacing", hand_over, OLD),
    Row("hand over late", hand_over_late),
    Row("settle handovers", settle_handovers),
    Row("settle handovers, no renames without replacing", settle_handovers, OLD),
    Row("delete or purge a queue of a handover", end_queue_of_handover),
    Row("first start", first_start),
    Row("first start, no unnamed files", first_start, OLD),
    Row("mixed batches", mixed),
    Row("mixed batches, ext4", mixed, EXT4),
    Row("a sync fails", failing_sync),
    Row("a sync fails, ext4", failing_sync, EXT4),
    Row("two servers", two_servers),
)

"""Messages that nobody can handle: they become dead letters, and are brought back."""

from __future__ import annotations

from tests.soak.bodies import DEAD, DYING
from tests.soak.bulk import BatchWorker
from tests.soak.history import Event, Given
from tests.soak.worker import one


class DyingWorker(BatchWorker):
    async def do_something(self) -> None:
        draw = self.random.randrange(10)
        if draw < 2:
            await self.publish_batch(DYING, self.random.randint(1, 8))
        elif draw < 3:
            await self._redrive()
        else:
            queue = DEAD if draw == 3 else DYING
            for given in await self.receive(queue, self.random.randint(1, 6), 0.5):
                await self._deal_with(queue, given)

    async def _redrive(self) -> None:
        """Only what is ready is moved, so no receiver loses its lease."""
        event = Event("redrive", 0, 0, None, DYING)
        await self.ask(event, "POST", f"/{DYING}/messages?from={DEAD}&max=50")
        self.note(event)

    async def _deal_with(self, queue: str, given: Given) -> None:
        draw = self.random.randrange(8)
        if draw < 2:
            await self.remove(queue, [given])
        elif draw < 4:
            await self._release(queue, given)
        elif draw < 5 and queue == DYING:
            await self._bury(given)

    async def _release(self, queue: str, given: Given) -> None:
        event = Event("release", 0, 0, None, queue, given=one(given.message_id, "", given.lease))
        target = f"/{queue}/messages?id={given.message_id}&visibility=0"
        await self.ask(event, "GET", target, If_Match=given.lease)
        self.note(event)

    async def _bury(self, given: Given) -> None:
        event = Event("move", 0, 0, None, DYING, given=one(given.message_id, "", given.lease))
        target = f"/{DEAD}/messages?from={DYING}&id={given.message_id}&reason=hopeless"
        await self.ask(event, "POST", target, If_Match=given.lease)
        self.note(event)

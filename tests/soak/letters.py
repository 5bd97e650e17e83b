"""Clients of the gateway for SQS."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.soak.bodies import LETTERS, property_of, text_of, token_in
from tests.soak.history import Event, Given
from tests.soak.worker import HttpWorker, SoakSite, grouped, one

_TYPE = "application/x-amz-json-1.0"
_ATTRIBUTE = "token"


class LettersWorker(HttpWorker):
    def __init__(self, site: SoakSite, source: random.Random) -> None:
        super().__init__(site, source)
        self._held: list[Given] = []

    @property
    def port(self) -> int:
        return self.site.gateway_port

    async def do_something(self) -> None:
        if self._held:
            work = self.random.choice([self._delete] * 4 + [self._change, self._drop])
        else:
            work = self.random.choice([self._send, self._send_batch, self._receive, self._receive])
        await work()

    async def _call(self, event: Event, operation: str, **members: Any) -> dict[str, Any]:
        body = json.dumps({"QueueUrl": LETTERS, **members}).encode()
        answer = await self.ask(
            event, "POST", "/", body, Content_Type=_TYPE, X_Amz_Target=f"AmazonSQS.{operation}"
        )
        return dict(json.loads(answer.body or b"{}")) if event.succeeded else {}

    async def _send(self) -> None:
        token = self.token()
        event = Event("publish", 0, 0, None, LETTERS, given=one("", token))
        if self.random.randrange(5) == 0:
            event.seconds = float(self.random.randint(1, 3))
        found = await self._call(
            event, "SendMessage", **_entry_of(token), DelaySeconds=int(event.seconds)
        )
        if event.succeeded:
            event.given = one(found["MessageId"], token)
        self.note(event)

    async def _send_batch(self) -> None:
        tokens = [self.token() for _ in range(self.random.randint(1, 10))]
        event = Event("publish", 0, 0, None, LETTERS, given=[Given("", token) for token in tokens])
        entries = [{"Id": f"e{place}"} | _entry_of(token) for place, token in enumerate(tokens)]
        found = await self._call(event, "SendMessageBatch", Entries=entries)
        if event.succeeded:
            sent = {each["Id"]: each["MessageId"] for each in found.get("Successful", [])}
            event.given = [
                Given(sent.get(f"e{place}", ""), token) for place, token in enumerate(tokens)
            ]
        self.note(event)

    async def _receive(self) -> None:
        event = Event("receive", 0, 0, None, LETTERS, float(self.random.randint(1, 3)))
        found = await self._call(
            event, "ReceiveMessage", MaxNumberOfMessages=self.random.randint(1, 10),
            VisibilityTimeout=int(event.seconds), MessageAttributeNames=["All"],
        )  # fmt: skip
        event.given = self._held = [_given_in(message) for message in found.get("Messages", [])]
        self.note(event)
        self._held = list(event.given)

    async def _delete(self) -> None:
        held, self._held = self._held, []
        event = Event("delete", 0, 0, None, LETTERS, given=held)
        entries = [
            {"Id": f"e{place}", "ReceiptHandle": given.lease} for place, given in enumerate(held)
        ]
        found = await self._call(event, "DeleteMessageBatch", Entries=entries)
        if not event.succeeded:
            self.note(event)
            return
        # Which ones failed for want of their queue and which of the disk is not told apart here.
        done = {each["Id"] for each in found.get("Successful", [])}
        statuses = [200 if f"e{place}" in done else 503 for place in range(len(held))]
        self.note(*grouped(event, zip(held, statuses, strict=True)))

    async def _change(self) -> None:
        """Prolong a lease, or end it. None is made shorter: the checker does not know of that."""
        message_id, _, lease = self._held.pop()
        seconds = self.random.choice([0, 4])
        kind = "renew" if seconds else "release"
        event = Event(kind, 0, 0, None, LETTERS, float(seconds), one(message_id, "", lease))
        await self._call(
            event, "ChangeMessageVisibility", ReceiptHandle=lease, VisibilityTimeout=seconds
        )
        self.note(event)

    async def _drop(self) -> None:
        self._held.clear()


def _entry_of(token: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"MessageBody": text_of(token)}
    for value in property_of(token).values():
        entry["MessageAttributes"] = {_ATTRIBUTE: {"DataType": "String", "StringValue": value}}
    return entry


def _given_in(message: dict[str, Any]) -> Given:
    token = token_in(message["Body"].encode())
    attributes = message.get("MessageAttributes", {})
    found = [attributes[_ATTRIBUTE]["StringValue"]] if _ATTRIBUTE in attributes else []
    is_whole = token is not None and found == list(property_of(token).values())
    return Given(message["MessageId"], token if is_whole else None, message["ReceiptHandle"])

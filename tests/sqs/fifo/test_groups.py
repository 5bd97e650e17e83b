"""The groups of a FIFO queue, against a model that looks at everything each time."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mq.ids import order_key
from mq_sqs.fifo.groups import Groups, Hiding

NAMES = ["a", "b", "c"]


def key(number: int) -> str:
    return order_key(f"id-{number}", number * 1_000_000)


def add(groups: Groups, *messages: tuple[int, str]) -> None:
    for number, name in messages:
        groups.add(key(number), name)


def test_messages_of_a_group_come_in_order_and_the_group_of_the_oldest_comes_first() -> None:
    groups = Groups()
    add(groups, (4, "b"), (2, "b"), (3, "a"), (1, "a"))

    assert groups.take(1) == [key(1)]
    assert groups.take(10) == [key(2), key(4)]
    assert groups.take(10) == []


def test_a_group_gives_nothing_out_while_one_of_it_is_leased() -> None:
    groups = Groups()
    add(groups, (1, "a"), (2, "a"))
    groups.take(1)

    assert groups.take(1) == []
    groups.forget("id-1")
    assert groups.take(1) == [key(2)]


def test_a_message_that_comes_back_has_its_place_again() -> None:
    groups = Groups()
    add(groups, (1, "a"), (2, "a"), (3, "a"))
    assert groups.take(2) == [key(1), key(2)]

    groups.show(key(2))
    assert groups.take(3) == []
    groups.show(key(1))
    assert groups.take(3) == [key(1), key(2), key(3)]


def test_a_message_that_is_not_there_yet_keeps_those_behind_it() -> None:
    groups = Groups()
    add(groups, (1, "a"), (3, "a"), (5, "b"))
    groups.hide(key(2), "a", Hiding.COMING)

    assert groups.take(10) == [key(1), key(5)]
    groups.forget("id-1")
    assert groups.take(10) == []
    groups.show(key(2))
    assert groups.take(10) == [key(2), key(3)]


def test_groups_without_messages_are_forgotten() -> None:
    groups = Groups()
    add(groups, *((number, f"group {number}") for number in range(1000)))
    for taken in groups.take(1000):
        groups.forget(taken[24:])

    assert (len(groups._groups), groups.available) == (0, 0)
    assert groups.take(1) == []


def test_what_was_offered_and_is_not_any_more_takes_no_room() -> None:
    groups = Groups()
    add(groups, (1, "a"), *((number, "b") for number in range(2, 12)))
    for _ in range(10_000):
        taken = groups.take(1)
        groups.show(taken[0])

    assert len(groups._offers) < 200
    assert sum(len(group.waiting) for group in groups._groups.values()) < 200


def test_what_came_behind_an_offered_message_takes_no_room() -> None:
    groups = Groups()
    add(groups, (0, "a"))
    for number in range(1, 1000):
        groups.hide(key(number), "a", Hiding.COMING)
        groups.show(key(number))

    assert not any(group.coming for group in groups._groups.values())
    assert len(groups.take(1000)) == 1000


class GroupsAgainstAModel(RuleBasedStateMachine):
    """The model: for each message its group, and why it is hidden, if it is."""

    def __init__(self) -> None:
        super().__init__()
        self.groups = Groups()
        self.model: dict[int, tuple[str, Hiding | None]] = {}

    def expected(self, limit: int) -> list[int]:
        """Return what may be received, in its order."""
        firsts: dict[str, int] = {}
        for number, (name, hiding) in sorted(self.model.items()):
            if hiding is None and self.is_next(number, name):
                firsts.setdefault(name, number)
        taken: list[int] = []
        for name in sorted(firsts, key=lambda name: firsts[name]):
            for number, (group, hiding) in sorted(self.model.items()):
                if group == name and hiding is None and self.is_next(number, name):
                    taken.append(number)
        return taken[:limit]

    def is_next(self, number: int, name: str) -> bool:
        """No other one of the group is leased, and none before it is yet to come."""
        return not any(
            group == name
            and (hiding is Hiding.LEASED or (hiding is Hiding.COMING and other < number))
            for other, (group, hiding) in self.model.items()
        )

    @rule(number=st.integers(1, 30), name=st.sampled_from(NAMES), hiding=st.sampled_from(Hiding))
    def hide_a_new_one(self, number: int, name: str, hiding: Hiding) -> None:
        self.groups.hide(key(number), name, hiding)
        self.model.setdefault(number, (name, hiding))

    @rule(number=st.integers(1, 30), name=st.sampled_from(NAMES))
    def add_a_new_one(self, number: int, name: str) -> None:
        self.groups.add(key(number), name)
        self.model.setdefault(number, (name, None))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def show(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.model)))
        self.groups.show(key(number))
        self.model[number] = (self.model[number][0], None)

    @rule(number=st.integers(1, 30))
    def forget(self, number: int) -> None:
        self.groups.forget(f"id-{number}")
        self.model.pop(number, None)

    @rule(limit=st.integers(1, 10))
    def take(self, limit: int) -> None:
        expected = self.expected(limit)

        assert self.groups.take(limit) == [key(number) for number in expected]

        for number in expected:
            self.model[number] = (self.model[number][0], Hiding.LEASED)

    @invariant()
    def says_how_many_groups_have_something(self) -> None:
        names = {self.model[number][0] for number in self.expected(100)}
        assert self.groups.available == len(names)

    @invariant()
    def knows_each_message(self) -> None:
        hidden = {number for number, (_, hiding) in self.model.items() if hiding is not None}
        assert {number for number in range(1, 31) if f"id-{number}" in self.groups} == set(
            self.model
        )
        assert {
            number for number in range(1, 31) if self.groups.is_hidden(f"id-{number}")
        } == hidden


TestGroupsAgainstAModel = GroupsAgainstAModel.TestCase
TestGroupsAgainstAModel.settings = settings(max_examples=60, deadline=None)

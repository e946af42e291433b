from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from gpuprov.cli.asking import Approval, is_yes
from gpuprov.events import HostEnded, RunStarted


class Person:
    """Answers questions and remembers them."""

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.asked: list[list[str]] = []

    async def __call__(self, hosts: Sequence[str]) -> bool:
        self.asked.append(list(hosts))
        await asyncio.sleep(0)
        return self.answers.pop(0)


def begun(person: Person, *hosts: str, slots: int | None = None) -> Approval:
    approval = Approval(person, slots=slots)
    approval(RunStarted(run="r", command="apply", hosts=hosts))
    return approval


def task(approval: Approval, host: str) -> asyncio.Task[bool]:
    return asyncio.ensure_future(approval.approve(host))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("answer", [True, False])
async def test_one_question_for_all_hosts_in_their_order(answer: bool) -> None:
    person = Person(answer)
    approval = begun(person, "a", "b", "c")
    tasks = [task(approval, host) for host in ("c", "a")]
    await settle()
    assert person.asked == []
    tasks.append(task(approval, "b"))
    assert await asyncio.gather(*tasks) == [answer] * 3
    assert person.asked == [["a", "b", "c"]]
    assert (approval.approved if answer else approval.declined) == ["a", "b", "c"]


async def test_hosts_that_ended_are_not_waited_for() -> None:
    person = Person(True)
    approval = begun(person, "a", "b", "c")
    waiting = task(approval, "b")
    approval(HostEnded(host="a", status="unreachable"))
    await settle()
    assert person.asked == []
    approval(HostEnded(host="c", status="ok"))
    assert await waiting
    assert person.asked == [["b"]]


async def test_where_nothing_differs_nothing_is_asked() -> None:
    person = Person()
    approval = begun(person, "a")
    approval(HostEnded(host="a", status="ok"))
    await settle()
    assert person.asked == []


async def test_with_few_slots_those_in_them_are_asked_for_first() -> None:
    person = Person(True, True)
    approval = begun(person, "a", "b", "c", slots=2)
    first = [task(approval, "a"), task(approval, "b")]
    assert await asyncio.gather(*first) == [True, True]
    approval(HostEnded(host="a", status="changed"))
    third = task(approval, "c")
    assert await third
    assert person.asked == [["a", "b"], ["c"]]


async def test_who_said_no_is_not_asked_again() -> None:
    person = Person(False)
    approval = begun(person, "a", "b", slots=1)
    assert not await approval.approve("a")
    approval(HostEnded(host="a", status="ok"))
    assert not await approval.approve("b")
    assert person.asked == [["a"]]
    assert approval.declined == ["a", "b"]


async def test_a_host_that_was_agreed_to_may_ask_again() -> None:
    person = Person(True)
    approval = begun(person, "a")
    assert await approval.approve("a")
    assert await approval.approve("a")
    assert len(person.asked) == 1


async def test_when_the_run_is_cancelled_the_question_is_withdrawn() -> None:
    withdrawn: list[bool] = []

    async def forever(hosts: Sequence[str]) -> bool:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            withdrawn.append(True)
            raise
        return True

    approval = Approval(forever)
    approval(RunStarted(run="r", command="apply", hosts=("a",)))
    waiting = task(approval, "a")
    await settle()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await settle()
    assert withdrawn == [True]


async def test_a_question_that_cannot_be_put_is_an_error_and_no_yes() -> None:
    async def broken(hosts: Sequence[str]) -> bool:
        raise OSError("no terminal")

    approval = Approval(broken)
    approval(RunStarted(run="r", command="apply", hosts=("a",)))
    with pytest.raises(OSError, match="no terminal"):
        await approval.approve("a")
    assert approval.approved == []


@pytest.mark.parametrize(
    ("answer", "yes"),
    [("y\n", True), ("YES\n", True), (" y \n", True), ("\n", False), ("", False), ("n\n", False), ("yellow\n", False)],
)
def test_only_yes_is_yes(answer: str, yes: bool) -> None:
    assert is_yes(answer) is yes

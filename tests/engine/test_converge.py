"""Converging: what is ready travels together, failures skip dependents, and a lost line is survived."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gpuprov.errors import LineLost
from gpuprov.events import NodeEnded, NodeOutput
from gpuprov.model import Change, Job, Member, Obtain, Run, Step
from tests.engine.pretend import PretendedHost, converge
from tests.engine.things import Thing, declare


def kinds(run: object) -> dict[str, str]:
    return {id_.partition(":")[2]: o.kind for id_, o in run.outcomes.items()}  # type: ignore[attr-defined]


@dataclass(frozen=True, kw_only=True)
class Jobbed(Thing):
    """A thing that a job makes."""

    def plan(self, now: str | None) -> Change | None:
        change = super().plan(now)
        step: Step = Job(title=f"job {self.name}", script=self.name)
        return change and Change(action=change.action, before="", after="", steps=(step,))


@dataclass(frozen=True, kw_only=True)
class Packaged(Thing):
    """A thing that a merged transaction makes."""

    separable: bool = True

    def plan(self, now: str | None) -> Change | None:
        change = super().plan(now)

        def join(items: tuple[str, ...]) -> Job:
            return Job(title="transaction", script=" ".join(items))

        step = Member(title=f"install {self.name}", group="apt", item=self.name, join=join, separable=self.separable)
        return change and Change(action=change.action, before="", after="", steps=(step,))


async def test_nothing_to_do_sends_nothing() -> None:
    host = PretendedHost(states={"a": "there", "b": "there"})
    run, _ = await converge(host, *declare(Thing(name="a"), Thing(name="b")))
    assert host.exchanges == 0 and not run.changed and kinds(run) == {"a": "same", "b": "same"}


async def test_what_is_independent_shares_one_frame_steps_first_then_looks() -> None:
    host = PretendedHost()
    run, _ = await converge(host, *declare(*(Thing(name=n) for n in "abcdefgh")))
    assert host.exchanges == 1
    assert host.frames[0] == [f"make {n}" for n in "abcdefgh"] + [f"look {n}" for n in "abcdefgh"]
    assert set(kinds(run).values()) == {"changed"}


async def test_one_exchange_for_each_level_of_dependency() -> None:
    a = Thing(name="a")
    b1, b2 = Thing(name="b1", needs_=(a,)), Thing(name="b2", needs_=(a,))
    host = PretendedHost()
    run, _ = await converge(host, *declare(a, b1, b2, Thing(name="c", needs_=(b1, b2))))
    assert host.exchanges == 3 and set(kinds(run).values()) == {"changed"}
    # what waits for a is looked at in the frame that verifies a
    assert host.frames[0] == ["make a", "look a", "look b1", "look b2"]


async def test_recheck_finds_that_nothing_is_left_to_do() -> None:
    a = Thing(name="a")
    host = PretendedHost()
    host.after_make = lambda name: host.states.update(b="there")
    run, _ = await converge(host, *declare(a, Thing(name="b", needs_=(a,))))
    assert kinds(run) == {"a": "changed", "b": "same"} and host.made == ["a"]


async def test_recheck_stands_when_no_need_changed_after_all() -> None:
    """b is to be checked again after a and c; a turns out right by itself, and so b's first look stands."""
    z = Thing(name="z")
    a = Thing(name="a", needs_=(z,))
    host = PretendedHost(states={"a": "there"})
    run, _ = await converge(host, *declare(z, a, Thing(name="b", needs_=(a,))))
    assert kinds(run) == {"z": "changed", "a": "same", "b": "changed"}
    assert ["look b"] not in host.frames, "b was looked at again although nothing that it needs had changed"


async def test_failure_skips_dependents_with_the_reason_and_the_rest_goes_on() -> None:
    a = Thing(name="a")
    b = Thing(name="b", needs_=(a,))
    host = PretendedHost(broken={"a"})
    run, events = await converge(host, *declare(a, b, Thing(name="c", needs_=(b,)), Thing(name="d")))
    assert kinds(run) == {"a": "failed", "b": "skipped", "c": "skipped", "d": "changed"}
    because = {e.id: e.because for e in events if isinstance(e, NodeEnded)}
    assert because["thing:b"] == "needs thing:a, which failed"
    assert because["thing:c"] == "needs thing:b, which was skipped"


async def test_a_failed_step_says_which_and_what_it_printed() -> None:
    _, events = await converge(PretendedHost(broken={"a"}), *declare(Thing(name="a")))
    (ended,) = [e for e in events if isinstance(e, NodeEnded)]
    assert ended.error is not None and ended.error.code == "step-failed"
    assert "make a" in ended.error.message and "broken" in ended.error.output and ended.error.where == "h, thing:a"


@pytest.mark.parametrize(("thing", "says"), [(Thing, False), (Jobbed, True)])
async def test_only_what_a_job_says_may_have_found_no_room(thing: type[Thing], says: bool) -> None:
    """What a short step says comes over the line, so that its silence says nothing of a disk."""
    host = PretendedHost(broken={"a"}, said=b"", job_status=1)
    _, events = await converge(host, *declare(thing(name="a")))
    (ended,) = [e for e in events if isinstance(e, NodeEnded)]
    assert ended.error is not None and ended.error.message.endswith("ended with status 1, and said nothing")
    assert ("full disk" in ended.error.hint) is says


async def test_success_without_effect_is_did_not_converge() -> None:
    run, events = await converge(PretendedHost(stubborn={"a"}), *declare(Thing(name="a")))
    assert kinds(run) == {"a": "failed"}
    (ended,) = [e for e in events if isinstance(e, NodeEnded)]
    assert ended.error is not None and ended.error.code == "did-not-converge"


async def test_the_journal_opens_before_and_closes_after() -> None:
    host = PretendedHost()
    await converge(host, *declare(Thing(name="a")))
    assert host.journal == ["gp_begin 1", "gp_undo 1", "gp_done 1"]  # undo stands in the script for the case of failure


class TestJobs:
    async def test_a_job_is_announced_carried_out_and_verified(self) -> None:
        host = PretendedHost()
        run, events = await converge(host, *declare(Jobbed(name="a")))
        assert kinds(run) == {"a": "changed"} and host.jobs == [("thing:a", "a")]
        assert "doing a" in [e.line for e in events if isinstance(e, NodeOutput)]
        assert host.frames[-1] == ["look a"] and host.exchanges == 2

    async def test_a_job_that_fails_has_the_former_state_put_back(self) -> None:
        host = PretendedHost(bad_items={"a"})
        run, _ = await converge(host, *declare(Jobbed(name="a")))
        assert kinds(run) == {"a": "failed"} and host.journal[-1] == "gp_undo 1"

    async def test_ready_members_are_one_transaction(self) -> None:
        host = PretendedHost()
        run, _ = await converge(host, *declare(*(Packaged(name=n) for n in "abc")))
        assert host.jobs == [("apt", "a b c")] and set(kinds(run).values()) == {"changed"}
        assert host.exchanges == 2, "the journal's notes of all three share a frame, as do their looks"

    async def test_one_bad_name_fails_alone(self) -> None:
        host = PretendedHost(bad_items={"b"})
        run, _ = await converge(host, *declare(*(Packaged(name=n) for n in "abc")))
        assert kinds(run) == {"a": "changed", "b": "failed", "c": "changed"}
        assert [script for _, script in host.jobs] == ["a b c", "a", "b", "c"]

    async def test_members_that_must_fit_together_fail_together(self) -> None:
        host = PretendedHost(bad_items={"b"})
        run, _ = await converge(host, *declare(*(Packaged(name=n, separable=False) for n in "abc")))
        assert set(kinds(run).values()) == {"failed"} and [script for _, script in host.jobs] == ["a b c"]

    async def test_a_member_that_becomes_ready_later_is_a_transaction_of_its_own(self) -> None:
        a = Packaged(name="a")
        host = PretendedHost()
        await converge(host, *declare(a, Packaged(name="b", needs_=(a,))))
        assert [script for _, script in host.jobs] == ["a", "b"]

    async def test_jobs_overlap_with_frames(self) -> None:
        a = Jobbed(name="a")
        host = PretendedHost()
        run, _ = await converge(host, *declare(a, Thing(name="b"), Thing(name="c", needs_=(a,))))
        assert set(kinds(run).values()) == {"changed"} and "make b" in host.frames[0]


@dataclass(frozen=True, kw_only=True)
class Fetched(Thing):
    """A thing that is made of a download."""

    def plan(self, now: str | None) -> Change | None:
        change = super().plan(now)
        fetch = Obtain(
            title="fetch", key="k", path="/cache/x.run", sources=("https://example.org/x.run",), sha256="0" * 64
        )
        return change and Change(action=change.action, before="", after="", steps=(fetch, *change.steps))


class TestDownloads:
    async def test_what_is_made_of_a_download_waits_for_it(self) -> None:
        host = PretendedHost()
        run, _ = await converge(host, *declare(Fetched(name="a")))
        assert kinds(run) == {"a": "changed"} and len(host.jobs) == 1
        assert host.frames == [[], ["make a", "look a"]]

    async def test_a_download_that_fails_is_said_and_nothing_is_made(self) -> None:
        host = PretendedHost()
        host.job_status = 1
        run, events = await converge(host, *declare(Fetched(name="a")))
        assert kinds(run) == {"a": "failed"} and host.made == [] and host.journal[-1] == "gp_undo 1"
        (ended,) = [e for e in events if isinstance(e, NodeEnded)]
        assert ended.error is not None and ended.error.code == "step-failed" and "fetch" in ended.error.message


class TestTheLineIsLost:
    @staticmethod
    def lost_once(host: PretendedHost, at: int, *, after: bool) -> None:
        def lose(exchange: int) -> None:
            if exchange == at:
                raise LineLost("cut", begun=True)

        if after:
            host.after_frame = lose
        else:
            host.before_frame = lose

    @pytest.mark.parametrize("after", [False, True])
    async def test_under_a_change_it_is_looked_at_and_not_done_twice(self, after: bool) -> None:
        host = PretendedHost()
        self.lost_once(host, 1, after=after)
        run, _ = await converge(host, *declare(Thing(name="a"), Thing(name="b")))
        assert kinds(run) == {"a": "changed", "b": "changed"}
        assert host.made == ["a", "b"], "what had taken place before the line was lost was done again"
        assert any(line.startswith("reopened") for line in host.journal)

    async def test_for_ever_it_fails_the_node(self) -> None:
        host = PretendedHost()

        def lose(exchange: int) -> None:
            if host.frames and "make a" in host.frames[-1]:
                host.frames.append([])
                raise LineLost("cut", begun=True)

        host.after_frame = lose
        host.stubborn = {"a"}
        run, events = await converge(host, *declare(Thing(name="a")))
        assert kinds(run) == {"a": "failed"} and len(host.made) == 3
        (ended,) = [e for e in events if isinstance(e, NodeEnded)]
        assert ended.error is not None and ended.error.code == "line-lost"


async def test_a_bug_in_one_resource_ends_no_other() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Buggy(Thing):
        def plan(self, now: str | None) -> Change | None:
            return Change(action="create", before="", after="", steps=("no step",))  # type: ignore[arg-type]

    host = PretendedHost()
    run, events = await converge(host, *declare(Buggy(name="a"), Thing(name="b")))
    assert kinds(run) == {"a": "failed", "b": "changed"}
    assert any(isinstance(e, NodeEnded) and e.error and e.error.code == "bug" for e in events)


async def test_secrets_in_output_are_masked() -> None:
    from gpuprov.secret import Secret

    @dataclass(frozen=True, kw_only=True)
    class Talkative(Thing):
        def plan(self, now: str | None) -> Change | None:
            step = Run(title="t", script=f"make {self.name} there", env={"TOKEN": Secret("hunter22")})
            return None if now else Change(action="create", before="", after="", steps=(step,))

    host = PretendedHost(broken={"a"})
    real = host.frame

    async def frame(sent: object) -> object:
        result = await real(sent)  # type: ignore[arg-type]
        for name, section in result.sections.items():
            result.sections[name] = section.__class__(  # type: ignore[index]
                name=name, status=section.status, stdout=b"token hunter22\n", stderr=b"bad hunter22\n"
            )
        return result

    host.frame = frame  # type: ignore[method-assign, assignment]
    _, events = await converge(host, *declare(Talkative(name="a")))
    text = repr(events)
    assert "hunter22" not in text and "***" in text

"""The rules of the model, each on pure data. Numbers are those of docs/architecture.md."""

from __future__ import annotations

from typing import Any

import pytest

from gpuprov.engine.graph import build
from gpuprov.engine.judging import judge
from gpuprov.errors import InputError, Unseen
from gpuprov.model import Blocked, Differs, Id, Recheck, Same, Verdict, normal_path
from gpuprov.resources import File
from tests.engine.things import Folder, Package, Thing, Writer, declare


def verdicts(*declared: Any, **states: Any) -> dict[str, Verdict]:
    graph = build(declared)
    seen = {id_: states.get(id_.partition(":")[2].replace("/", "_")) for id_ in graph}
    return {id_.partition(":")[2]: v for id_, v in judge(graph, seen).items()}


def ids(*declared: Any) -> list[str]:
    return [id_.partition(":")[2] for id_ in build(declared)]


class TestRule1AbsentIsAValueUnseenIsAnError:
    def test_absent_is_planned(self) -> None:
        assert isinstance(verdicts(*declare(Thing(name="a")), a=None)["a"], Differs)

    def test_unseen_is_blocked_never_planned(self) -> None:
        verdict = verdicts(*declare(Thing(name="a")), a=Unseen("no permission"))["a"]
        assert verdict == Blocked("no permission", unseen=True)

    def test_what_needs_an_unseen_node_is_blocked_by_name(self) -> None:
        a = Thing(name="a")
        got = verdicts(*declare(a, Thing(name="b", needs_=(a,))), a=Unseen("no permission"))["b"]
        assert isinstance(got, Blocked) and not got.unseen and "thing:a" in got.because

    def test_unseen_behind_a_need_that_changes_is_looked_at_again(self) -> None:
        a = Thing(name="a")
        got = verdicts(*declare(a, Thing(name="b", needs_=(a,))), a=None, b=Unseen("gcc-11: not found"))["b"]
        assert got == Recheck((Id("thing:a"),), None)


class TestRule2Inside:
    def test_in_a_new_container_it_is_planned_from_absent_exactly(self) -> None:
        env = Thing(name="env")
        got = verdicts(*declare(env, Thing(name="pip", home=env)), env=None, pip="there")["pip"]
        assert isinstance(got, Differs) and got.change.before == "absent"

    def test_in_a_container_that_only_updates_it_is_looked_at_again(self) -> None:
        env = Thing(name="env")
        got = verdicts(*declare(env, Thing(name="pip", home=env)), env="old", pip="there")["pip"]
        assert got == Recheck((Id("thing:env"),), None)

    def test_a_container_checked_again_hands_its_recheck_on(self) -> None:
        base = Thing(name="base")
        env = Thing(name="env", needs_=(base,))
        got = verdicts(*declare(base, env, Thing(name="pip", home=env)), base=None, env=None, pip="there")
        assert isinstance(got["env"], Recheck)
        assert isinstance(got["pip"], Recheck)
        assert got["pip"].after == (Id("thing:base"),)
        assert got["pip"].now is not None and got["pip"].now.before == "absent"

    def test_in_what_is_removed_nothing_can_stand(self) -> None:
        env = Thing(name="env", present=False)
        got = verdicts(*declare(env, Thing(name="pip", home=env)), env="there")["pip"]
        assert isinstance(got, Blocked) and "thing:env" in got.because


class TestRule3Recheck:
    def test_keeps_its_provisional_change(self) -> None:
        a = Thing(name="a")
        got = verdicts(*declare(a, Thing(name="b", needs_=(a,))), a=None, b=None)["b"]
        assert isinstance(got, Recheck) and got.now is not None and got.after == (Id("thing:a"),)

    def test_names_only_the_needs_that_change(self) -> None:
        a, b = Thing(name="a"), Thing(name="b")
        got = verdicts(*declare(a, b, Thing(name="c", needs_=(a, b))), a="there", b=None, c="there")["c"]
        assert got == Recheck((Id("thing:b"),), None)

    def test_runs_along_a_chain(self) -> None:
        a = Thing(name="a")
        b = Thing(name="b", needs_=(a,))
        c = Thing(name="c", needs_=(b,))
        assert isinstance(verdicts(*declare(a, b, c), a=None, b="there", c="there")["c"], Recheck)

    def test_nothing_changes_nothing_is_looked_at_again(self) -> None:
        a = Thing(name="a")
        got = verdicts(*declare(a, Thing(name="b", needs_=(a,))), a="there", b="there")
        assert got == {"a": Same(), "b": Same()}


class TestRule6OneNodePerIdentity:
    def test_equal_declarations_become_one_and_unite_their_needs(self) -> None:
        a, b = Thing(name="a"), Thing(name="b")
        graph = build(declare(a, b, Thing(name="c", needs_=(a,)), Thing(name="c", needs_=(b,))))
        assert graph[Id("thing:c")].needs == {"thing:a", "thing:b"}

    def test_one_with_needs_and_one_without_are_equal(self) -> None:
        a = Thing(name="a")
        assert ids(*declare(Thing(name="c"), Thing(name="c", needs_=(a,)))) == ["a", "c"]

    def test_contradiction_names_both_places(self) -> None:
        with pytest.raises(InputError) as caught:
            build([*declare(Thing(name="a"), role="one"), *declare(Thing(name="a", want="else"), role="two")])
        assert "thing:a" in str(caught.value) and "one" in str(caught.value) and "two" in str(caught.value)
        assert "'there'" in str(caught.value) and "'else'" in str(caught.value)

    def test_contradiction_shows_text_as_it_is_written(self) -> None:
        """Neither as Python's bytes, nor a mode in decimal."""
        pair = (File(path="/etc/x", content="set -g mouse on\n"), File(path="/etc/x", content="ö\n", mode=0o600))
        with pytest.raises(InputError) as caught:
            build(declare(*pair))
        assert "differently: content 'set -g mouse on\\n' and 'ö\\n', mode 0644 and 0600; by" in str(caught.value)
        with pytest.raises(InputError, match=r"content 'a' and 2 bytes; by"):
            build(declare(File(path="/x", content="a"), File(path="/x", content=b"\xff\0")))

    def test_present_and_absent_contradict(self) -> None:
        with pytest.raises(InputError, match="present True and False"):
            build(declare(Thing(name="a"), Thing(name="a", present=False)))

    @pytest.mark.parametrize("first_has_it", [True, False])
    def test_merge_takes_the_one_that_says_more(self, first_has_it: bool) -> None:
        pair = [Package(name="p", version="1"), Package(name="p")]
        graph = build(declare(*(pair if first_has_it else reversed(pair))))
        resource = graph[Id("thing:p")].resource
        assert isinstance(resource, Package) and resource.version == "1"

    def test_merge_refuses_two_versions(self) -> None:
        with pytest.raises(InputError):
            build(declare(Package(name="p", version="1"), Package(name="p", version="2")))

    def test_two_classes_with_one_identity_contradict(self) -> None:
        with pytest.raises(InputError, match="as Thing and as Package"):
            build(declare(Thing(name="p"), Package(name="p")))

    @pytest.mark.parametrize(
        ("given", "normal"),
        [("/a/b", "/a/b"), ("/a//b/", "/a/b"), ("//a", "/a"), ("/a/./b/../c", "/a/c"), ("/..", "/"), ("/", "/")],
    )
    def test_paths_have_one_spelling(self, given: str, normal: str) -> None:
        assert normal_path(given) == normal

    @pytest.mark.parametrize("bad", ["", "a/b", "~/x", "/a\nb", "/a\0b"])
    def test_paths_that_are_none(self, bad: str) -> None:
        with pytest.raises(ValueError):
            normal_path(bad)


class TestRule7ReferencesNotNames:
    def test_order_comes_from_fields(self) -> None:
        a = Thing(name="a")
        assert ids(*declare(Thing(name="b", needs_=(a,)), a)) == ["a", "b"]

    def test_what_is_independent_keeps_the_playbooks_order(self) -> None:
        assert ids(*declare(*(Thing(name=n) for n in "zebra"))) == list("zebra")

    def test_what_lies_under_a_declared_folder_needs_it_and_stands_inside_it(self) -> None:
        graph = build(declare(Thing(name="f", at="/d/e/f"), Folder(name="", at="/d"), Folder(name="", at="/d/e")))
        node = graph[Id("thing:f")]
        assert node.needs == {"folder:/d", "folder:/d/e"} and node.container == "folder:/d/e"

    def test_what_a_thing_writes_needs_its_folder_without_standing_inside(self) -> None:
        graph = build(declare(Writer(name="w", writes="/d/x"), Folder(name="", at="/d")))
        node = graph[Id("thing:w")]
        assert node.needs == {"folder:/d"} and node.container is None

    def test_a_folder_beside_is_no_container(self) -> None:
        graph = build(declare(Folder(name="", at="/d"), Thing(name="f", at="/d2/f")))
        assert graph[Id("thing:f")].needs == frozenset()

    def test_removal_goes_inside_out(self) -> None:
        graph = build(declare(Folder(name="", at="/d", present=False), Thing(name="f", at="/d/f", present=False)))
        assert list(graph) == ["thing:f", "folder:/d"]

    def test_to_stand_in_what_is_removed_is_a_contradiction(self) -> None:
        with pytest.raises(InputError, match="is to be removed"):
            build(declare(Folder(name="", at="/d", present=False), Thing(name="f", at="/d/f")))

    def test_a_ring_is_named(self) -> None:
        a1 = Thing(name="a")
        b = Thing(name="b", needs_=(a1,))
        with pytest.raises(InputError, match="ring"):
            build(declare(b, Thing(name="a", needs_=(b,))))

    def test_what_is_only_referred_to_is_declared_too(self) -> None:
        assert ids(*declare(Thing(name="b", needs_=(Thing(name="a"),)))) == ["a", "b"]


class TestRule8TagsSelectWhatIsChangedNotWhatIsProbed:
    def test_unselected_nodes_are_judged(self) -> None:
        assert isinstance(verdicts(*declare(Thing(name="a"), selected=False), a=None)["a"], Differs)

    def test_a_selected_node_whose_unselected_need_is_not_in_place_is_blocked_by_name(self) -> None:
        a = Thing(name="a")
        got = verdicts(*declare(a, selected=False), *declare(Thing(name="b", home=a, needs_=(a,))), a=None, b=None)
        # b's reference to a does not select it
        assert isinstance(got["b"], Blocked) and "thing:a" in got["b"].because

    def test_declared_by_a_selected_role_too_it_is_selected(self) -> None:
        graph = build([*declare(Thing(name="a"), selected=False), *declare(Thing(name="a"))])
        assert graph[Id("thing:a")].selected

    def test_an_unselected_need_that_is_in_place_blocks_nothing(self) -> None:
        a = Thing(name="a")
        graph = build([*declare(a, selected=False), *declare(Thing(name="b", needs_=(a,)))])
        assert not isinstance(judge(graph, {Id("thing:a"): "there"})[Id("thing:b")], Blocked)


def test_rule_11_judging_is_pure() -> None:
    """Plan is apply without its last part: the same states give the same verdicts, however often."""
    graph = build(declare(Thing(name="a"), Thing(name="b", want="x")))
    states = {Id("thing:a"): None, Id("thing:b"): "y"}
    assert judge(graph, states) == judge(graph, states)


def test_rule_12_a_plan_that_fails_blocks_its_dependents_and_nobody_else() -> None:
    a = Thing(name="a", refuse=True)
    got = verdicts(*declare(a, Thing(name="b", needs_=(a,)), Thing(name="c")), a="x", b="there", c=None)
    assert got["a"] == Blocked("cannot be judged")
    assert isinstance(got["b"], Blocked)
    assert isinstance(got["c"], Differs)

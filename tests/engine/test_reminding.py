from __future__ import annotations

from gpuprov.engine.reminding import Reminder


def test_what_lasts_is_said_ever_less_often_and_something_else_at_once() -> None:
    reminder = Reminder()
    said = [second for second in range(0, 605, 5) if reminder.due("ada", float(second))]
    assert said == [0, 30, 90, 210, 450]
    assert [reminder.due(who, 605.0) for who in ("bea", "bea", "ada", "ada")] == [True, False, True, False]
    assert [reminder.due("ada", second) for second in (634.9, 635.0)] == [False, True]

"""What a question says."""

from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from coordinator_plugin import question

from coordinator_tasks.core.codecs.codec import encode_state
from coordinator_tasks.core.model import State, TopicState
from coordinator_tasks.core.ports import SetData
from coordinator_tasks.service.nodes import directives, topics
from coordinator_tasks.service.watch import overview
from tests.fakes.cluster import PERSON, Cluster
from tests.unit.plugins.coordinator_plugin.stage import stable

HOLDS_UP = {"orders": {"b": "b does not confirm"}}


def test_the_question_says_what_else_isolating_would_take(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.kafka.create_topic("clicks", 6)
    topics.add_topic(shop.coordinator, "clicks", "g", actor=PERSON)
    stable(shop, "clicks", {0: "a", 1: "b", 2: "a", 3: "a"})
    monkeypatch.setattr(question, "held_up", lambda _, names: {names[0]: {"a": "a does not answer"}})
    ask = question.QuestionOperator(task_id="ask")
    about = cast(Any, {"params": {"topic": "orders", "consumer": "a"}})
    takes = "takes everything from this consumer at once: partitions 0,2-3 of clicks"
    ask._about_consumer(shop.coordinator, about)
    assert f"{takes}; nobody else is there to take those of clicks. If" in str(ask.body)
    shop.join("b")
    ask._about_consumer(shop.coordinator, about)
    assert f"{takes}. If" in str(ask.body)
    assert question.takes({}) == "it has no partition now"
    assert question.takes({f"t{n:02}": (n,) for n in range(12)}).endswith("partition 9 of t09, those of 2 more topics")


def test_what_is_on_its_way_is_taken_by_an_isolation_as_well(shop: Cluster) -> None:
    stable(shop, "orders", {0: "a"})
    state = TopicState(State.CLOSING, {"a": (2,)}, {"b": (2,), "a": (3,)}, {2: 2, 3: 2}, "2-a", 1.0, 1.0, "joined: b")
    shop.zk.transact([SetData(shop.paths.state("orders"), encode_state(state))])
    taken = {who: question.takes(overview.at_stake(shop.coordinator, who)) for who in ("a", "b")}
    assert taken == {"a": "partitions 0,2-3 of orders", "b": "partition 2 of orders"}


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (None, AirflowSkipException, "'ask' has no answer: it was marked as success; clear it to ask again"),
        *(
            (answer, AirflowFailException, "the XCom of 'ask' is no answer to its question; clear it to ask")
            for answer in (
                "isolate",
                ["isolate"],
                {"chosen_options": "isolate", "responded_by_user": {"id": "1", "name": "ada"}},
                {"chosen_options": ["isolate"], "responded_by_user": "ada"},
                {"chosen_options": ["isolate"], "responded_by_user": {"id": "1", "name": ["ada"]}},
            )
        ),
    ],
)
def test_an_xcom_that_is_no_answer_isolates_nobody(answer: object, error: type[Exception], says: str) -> None:
    ti = SimpleNamespace(xcom_pull=lambda task_ids: answer)
    apply = question.ApplyAnswerOperator(task_id="apply_answer", question="ask")
    with pytest.raises(error, match=says):
        apply.execute(cast(Any, {"ti": ti}))


def applied(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs a try of the task after an answer, given seconds after now, while `held_up` says this."""
    apply = question.ApplyAnswerOperator(task_id="apply_answer", question="ask")
    answer = {"chosen_options": ["isolate"], "responded_by_user": {"id": "1", "name": "ada"}}

    def tried(attempt: int, held_up: dict[str, Any], after_s: float = 0.0) -> str:
        monkeypatch.setattr(question, "held_up", lambda *_: held_up)
        about = {"dag_id": "stuck_topic", "run_id": "r", "task_id": "apply_answer", "try_number": attempt}
        given = answer | {"responded_at": datetime.fromtimestamp(began_at + after_s, UTC)}
        ti = SimpleNamespace(**about, xcom_pull=lambda task_ids: given)
        params = {"topic": "orders", "consumer": "b"}
        return apply.execute(cast(Any, {"ti": ti, "dag_run": SimpleNamespace(), "params": params}))

    began_at = shop.clock.now()
    return tried


def test_a_try_that_died_after_it_had_isolated_has_isolated(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.join("b")
    tried = applied(shop, monkeypatch)
    assert tried(1, HOLDS_UP) == "ada"
    isolated = directives.read_directive(shop.coordinator, "b").isolation
    assert (isolated.by, isolated.why) == ("ada", "held up orders")
    assert tried(2, {}, question.CLOCKS_S) == "ada"
    assert directives.read_directive(shop.coordinator, "b").isolation == isolated
    with pytest.raises(AirflowSkipException, match="b no longer holds up orders: nothing is done"):
        tried(1, {})


def test_a_new_answer_to_a_question_that_was_cleared_is_done(shop: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.join("b")
    tried = applied(shop, monkeypatch)
    tried(1, HOLDS_UP)
    shop.clock.advance(600)
    directives.readmit(shop.coordinator, "b", by="kim")
    assert tried(2, HOLDS_UP, 600) == "ada"
    again = directives.read_directive(shop.coordinator, "b").isolation
    assert not again.readmit

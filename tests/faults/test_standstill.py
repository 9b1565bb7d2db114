"""Time in which a server does not answer is no time of a case."""

import threading
import time
from collections.abc import Callable

import pytest

from coordinator_tasks.core.errors import StoreUnavailable
from tests.faults.standstill import Patience, Standstill
from tests.integration.agent_site import wait_for

EVERY_S = 0.01
BOUND_S = 0.05


class Server:
    """Answers while it `runs`; refuses if it is `ill`."""

    def __init__(self, *, ill: bool = False) -> None:
        self.runs, self.ill, self.asked = threading.Event(), ill, 0
        self.runs.set()

    def ask(self) -> None:
        self.asked += 1
        self.runs.wait()
        if self.ill:
            raise StoreUnavailable("no")


@pytest.mark.parametrize("ill", [False, True])
def test_a_server_that_answers_or_refuses_does_not_stand_still(ill: bool) -> None:
    server = Server(ill=ill)
    standstill = Standstill(server.ask, every_s=EVERY_S, usual_s=60.0)
    wait_for(lambda: server.asked > 3, "it is asked again and again")
    assert standstill.total_s() == 0.0
    standstill.close()


def test_a_server_that_takes_a_question_and_says_nothing_stands_still_and_the_time_is_kept() -> None:
    server = Server()
    standstill = Standstill(server.ask, every_s=EVERY_S, usual_s=EVERY_S)
    server.runs.clear()
    wait_for(lambda: standstill.total_s() > BOUND_S, "it stands still")
    asked = server.asked
    server.runs.set()
    wait_for(lambda: server.asked > asked + 1, "it answers again")
    assert standstill.total_s() > BOUND_S
    standstill.close()


@pytest.mark.parametrize(
    ("most_s", "stood", "over"),
    [
        (60.0, lambda: 0.0, True),
        (60.0, time.monotonic, False),
        (2 * BOUND_S, time.monotonic, True),
    ],
    ids=["answers", "stands still", "stands still for ever"],
)
def test_a_limit_counts_the_time_in_which_servers_answer(
    most_s: float, stood: Callable[[], float], *, over: bool
) -> None:
    patience = Patience(BOUND_S, most_s, stood)
    until_s = time.monotonic() + 3 * BOUND_S
    wait_for(lambda: time.monotonic() > until_s, "the limit has passed")
    assert patience.over is over

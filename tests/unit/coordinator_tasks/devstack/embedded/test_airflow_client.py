"""The client of Airflow's API against a server that refuses as Airflow does."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from coordinator_tasks.devstack.embedded.airflow_client import ATTEMPTS, AirflowClient
from coordinator_tasks.devstack.embedded.errors import AirflowUnavailable

LOCKED = {"detail": {"reason": "Database error", "statement": "hidden", "message": "Serious error when handling ..."}}


class Answers(BaseHTTPRequestHandler):
    """Signs everybody in, and answers other requests from ``left``, first to last."""

    left: ClassVar[list[tuple[int, object]]] = []
    asked: ClassVar[list[tuple[str, str]]] = []

    def answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/auth/token":
            self.left.insert(0, (201, {"access_token": "t"}))
        else:
            self.asked.append((self.command, self.path))
        status, body = self.left.pop(0)
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_PATCH = answer  # noqa: N815 - the base class names them so

    def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - the base class names it so
        pass


@pytest.fixture
def client() -> Iterator[AirflowClient]:
    Answers.left.clear()
    Answers.asked.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    with AirflowClient(f"http://127.0.0.1:{server.server_port}", "admin", "pw") as made:
        yield made
    server.shutdown()
    server.server_close()


def test_what_airflow_rolled_back_is_asked_again(client: AirflowClient) -> None:
    Answers.left += [(500, LOCKED), (500, LOCKED), (200, {"dag_run_id": "manual-1"})]
    assert client.trigger("rebalance") == "manual-1"
    assert Answers.asked == [("POST", "/api/v2/dags/rebalance/dagRuns")] * 3


def test_a_database_that_stays_locked_is_said_in_airflows_words(client: AirflowClient) -> None:
    Answers.left += [(500, LOCKED)] * (ATTEMPTS + 1)
    with pytest.raises(AirflowUnavailable, match=r"refused PATCH /api/v2/dags/rebalance with status 500: .*Database"):
        client.set_paused("rebalance", True)
    assert len(Answers.left) == 1

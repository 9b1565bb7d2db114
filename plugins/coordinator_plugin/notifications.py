"""Tells a chat, or another receiver of JSON over HTTP, which topics are stuck, not owned or flapping, and why."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

import httpx
from airflow.sdk import BaseHook, BaseNotifier, Connection, Context
from airflow.sdk.exceptions import AirflowNotFoundException

from coordinator_plugin.hook import CoordinatorHook
from coordinator_plugin.stuck_topics import sentences
from coordinator_tasks.core.errors import CoordinatorError
from coordinator_tasks.core.text.partition_text import cut

LIMIT_S = 10.0
SHOWN_CHARS = 2_000
_PLAIN = str.maketrans({"<": "‹", ">": "›", "[": "(", "]": ")", "@": "＠", "`": "'"})


class StuckTopicsNotifier(BaseNotifier):
    """For `on_failure_callback`, for deadlines, and for the questions of `stuck_topic`.

    An empty `cluster` means the default cluster. The notifier logs one line per stuck topic. With `http_conn_id` it
    also posts the lines as `{"text": ...}` to that connection, whose host field has a host or a whole URL. The password
    is sent as a bearer token. A failed post or a missing connection is logged, and fails nothing.
    """

    template_fields: Sequence[str] = ()

    def __init__(self, *, cluster: str = "", http_conn_id: str = "", context: Context | None = None) -> None:
        super().__init__(context)
        self.cluster = cluster
        self.http_conn_id = http_conn_id

    def notify(self, context: Context) -> None:
        lines = self._lines()
        for line in lines:
            self.log.warning("%s", line)
        if not self.http_conn_id:
            return
        try:
            _post(BaseHook.get_connection(self.http_conn_id), "\n".join([f"{_about(context)}:", *lines]))
        except AirflowNotFoundException as error:
            self.log.error("nobody is told by HTTP: %s; add the connection, or correct notify_conn_id", error)  # noqa: TRY400
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            # Without the error's text, because the address of a chat is a secret.
            code = f" {error.response.status_code}" if isinstance(error, httpx.HTTPStatusError) else ""
            self.log.error("the post to connection %s failed: %s%s", self.http_conn_id, type(error).__name__, code)  # noqa: TRY400

    async def async_notify(self, context: Context) -> None:
        """Notify from the triggerer, which runs the callbacks of deadlines."""
        await asyncio.to_thread(self.notify, context)

    def _lines(self) -> list[str]:
        try:
            with CoordinatorHook(self.cluster).open() as coordinator:
                return list(sentences(coordinator)) or ["no topic is stuck now"]
        except CoordinatorError as error:
            return [f"the coordinator cannot read its topics: {error.told}"]


def _about(context: Context) -> str:
    """Return the occasion of the notification."""
    if (ti := context.get("ti")) is not None:
        return f"{ti.dag_id}, task {ti.task_id}, run {ti.run_id}"
    given = cast("Mapping[str, Any]", context)
    if "deadline" not in given:
        return "the coordinator"
    run = given.get("dag_run")  # a plain dictionary in deadline callbacks
    which = f"run {run.get('dag_run_id')} of {run.get('dag_id')}" if isinstance(run, Mapping) else "a run"
    return f"{which} has not ended within its deadline: see whether Airflow works, or is too busy. The topics"


def _post(connection: Connection, text: str) -> None:
    host = connection.host or ""
    url = host if "://" in host else f"{connection.schema or 'https'}://{host}"
    if connection.port:
        url = f"{url}:{connection.port}"
    headers = {"Authorization": f"Bearer {connection.password}"} if connection.password else {}
    shown = text.translate(_PLAIN)
    body = {"text": cut(shown, SHOWN_CHARS)}
    with httpx.stream("POST", url, json=body, headers=headers, timeout=LIMIT_S) as answer:
        answer.raise_for_status()  # the body is not read, because it may be endless

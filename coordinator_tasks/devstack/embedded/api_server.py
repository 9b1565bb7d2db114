"""``python -m coordinator_tasks.devstack.embedded.api_server api-server``: Airflow's api-server, but it writes the
audit log in a thread.

Airflow 3.3 commits its audit log on the event loop. While the loop waits, no other request can commit. SQLite has one
writer: if another request has written and not committed, the loop waits for that request's lock, and the request waits
for the loop, until the lock times out. A click while a task starts is enough.
"""

from collections.abc import Awaitable, Callable

from airflow.__main__ import main
from airflow.api_fastapi.common.db.common import SessionDep
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.api_fastapi.logging import decorators
from airflow.models.log import Log
from fastapi import Request
from starlette.concurrency import run_in_threadpool

_original = decorators.action_logging


class _Kept:
    """Stands in for a session: keeps the added logs, which are written later."""

    def __init__(self) -> None:
        self.logs: list[Log] = []

    def add(self, log: Log) -> None:
        self.logs.append(log)

    def commit(self) -> None:
        pass


def action_logging(event: str | None = None) -> Callable[..., Awaitable[None]]:
    """Return the dependency that Airflow has under this name, but with the commit in a thread."""
    note = _original(event)

    async def log_action(request: Request, session: SessionDep, user: GetUserDep) -> None:
        kept = _Kept()
        await note(request, kept, user)
        session.add_all(kept.logs)
        await run_in_threadpool(session.commit)

    return log_action


if __name__ == "__main__":
    decorators.action_logging = action_logging
    main()  # type: ignore[no-untyped-call]

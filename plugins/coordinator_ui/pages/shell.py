"""Shows a page's head at once, and the content as soon as it is read.

The answer is one document in two parts, so a browser needs no script. A quick answer comes in one part, with its own
status.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from fastapi import Request
from fastapi.responses import Response, StreamingResponse
from starlette.exceptions import HTTPException as AnyHTTPException

from coordinator_tasks.core.errors import CoordinatorError
from coordinator_ui.pages.render import content_of, headers, page, shell_of

SHELL_AFTER_S = 0.3
"""Seconds of reading before a page shows its head without the content."""
UNBUFFERED = {"X-Accel-Buffering": "no"}
"""Lets a proxy such as nginx pass the head on at once."""
Values = Callable[[], Awaitable[Mapping[str, Any]]]


async def answered(
    request: Request, template: str, read: Values, *, scripts: tuple[str, ...] = (), **values: Any
) -> Response:
    """Return a page. `values` are enough for the head; `read` returns the values of the content.

    If `read` fails after the head was sent, the status stays 200, and the page of the error becomes the content.
    """
    work = asyncio.ensure_future(read())
    # The read goes on if its viewer leaves, because others may share the answer. Then nobody else retrieves the error.
    work.add_done_callback(lambda late: late.cancelled() or late.exception())
    done, _ = await asyncio.wait({work}, timeout=request.app.state.shell_after_s)
    if done:
        return page(request, template, scripts=scripts, **{**values, **work.result()})
    head = shell_of(page(request, template, scripts=scripts, reads=True, **values))

    async def parts() -> AsyncIterator[bytes]:
        yield head
        try:
            whole: Response = page(request, template, scripts=scripts, **{**values, **await work})
        except (CoordinatorError, AnyHTTPException) as error:
            whole = await _told(request, error)
        yield content_of(whole)

    return StreamingResponse(parts(), media_type="text/html", headers={**headers(scripts), **UNBUFFERED})


async def _told(request: Request, error: Exception) -> Response:
    """Return the application's page of this error."""
    handlers = request.app.exception_handlers
    kind = next(kind for kind in type(error).__mro__ if kind in handlers)
    told: Response = await handlers[kind](request, error)
    return told

"""A schema registry on this host: what Confluent's answers to those who ask for the versions of a subject."""

import base64
import json
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

from coordinator_tasks.devstack.embedded.ports import HOST


def versions(
    subject: str,
    schemas: Mapping[int, str],
    deleted: Collection[int] = (),
    references: Mapping[int, Sequence[Mapping[str, object]]] | None = None,
) -> dict[str, object]:
    """The answers by path; `schemas` by their ids, the first version first. Those of `deleted` ids are soft-deleted."""
    place, asked = f"/subjects/{quote(subject, safe='')}/versions", "?deleted=true"
    answers: dict[str, object] = {place: [], f"{place}{asked}": list(range(1, len(schemas) + 1))}
    for number, (one, schema) in enumerate(schemas.items(), 1):
        answers[f"{place}/{number}{asked}"] = {
            "subject": subject,
            "version": number,
            "id": one,
            "schema": schema,
            **({"references": references[one]} if references and one in references else {}),
        }
    answers[place] = [number for number, one in enumerate(schemas, 1) if one not in deleted]
    return answers


@contextmanager
def serving(answers: Mapping[str, object], user: str, password: str) -> Iterator[str]:
    """Answer this user until the block ends; the registry's address."""
    wanted = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers["Authorization"] != wanted:
                self.reply(HTTPStatus.UNAUTHORIZED, {"error_code": 401, "message": "Unauthorized"})
            elif self.path not in answers:
                self.reply(HTTPStatus.NOT_FOUND, {"error_code": 40401, "message": "Subject not found"})
            else:
                self.reply(HTTPStatus.OK, answers[self.path])

        def reply(self, status: HTTPStatus, body: object) -> None:
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
            """Nothing is logged."""

    server = ThreadingHTTPServer((HOST, 0), Handler)
    thread = threading.Thread(target=server.serve_forever, name="registry", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

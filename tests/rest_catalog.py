"""A REST catalog of Iceberg for tests: the calls of pyiceberg, on http.server, in front of SQL catalogs in folders.

The property `warehouse` of a catalog is the folder of its tables.
"""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.rest import TableResponse
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from pyiceberg.schema import Schema
from pyiceberg.table import CommitTableRequest, Table

from coordinator_tasks.devstack.embedded.ports import HOST, free_port

STATUS: dict[type[Exception], int] = {
    NoSuchTableError: 404,
    NoSuchNamespaceError: 404,
    TableAlreadyExistsError: 409,
    NamespaceAlreadyExistsError: 409,
    CommitFailedException: 409,
}


def catalog_in(folder: Path) -> dict[str, str]:
    """A SQL catalog and its tables in this folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.sqlite", "warehouse": f"file://{folder}"}


class RestCatalogServer:
    """The server may be stopped and started again at the same address.

    `lost_answers`: number of further commits that are applied without an answer.
    """

    def __init__(self) -> None:
        self.address = HOST, free_port()
        self.url = "http://{}:{}".format(*self.address)
        self.lost_answers = 0
        self._server: HTTPServer | None = None
        self.start()

    def start(self) -> None:
        """Answer requests."""
        self._server = HTTPServer(self.address, type("_Bound", (_Handler,), {"owner": self}))
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


class _Handler(BaseHTTPRequestHandler):
    owner: RestCatalogServer

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_DELETE = do_GET  # noqa: N815

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            status, text = 200, self._result(body)
        except Exception as error:  # noqa: BLE001 - each error is an answer
            status = STATUS.get(type(error), 500)
            text = json.dumps({"error": {"message": str(error), "type": type(error).__name__, "code": status}})
        if text is None:
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(text.encode())

    def _result(self, body: bytes) -> str | None:
        parts = urlsplit(self.path)
        _, *names = parts.path.strip("/").split("/")
        if names == ["config"]:
            (warehouse,) = parse_qs(parts.query)["warehouse"]
            return json.dumps({"defaults": {}, "overrides": {"prefix": warehouse.encode().hex()}})
        catalog = load_catalog("tests", **catalog_in(Path(bytes.fromhex(names[0]).decode())))
        try:
            return self._in(catalog, names[2:], body)
        finally:
            catalog.close()

    def _in(self, catalog: Catalog, names: list[str], body: bytes) -> str | None:
        match self.command, names:
            case "POST", []:
                catalog.create_namespace("shop")
                return '{"namespace": ["shop"]}'
            case "POST", [namespace, "tables"]:
                wanted = json.loads(body)
                return _shown(catalog.create_table((namespace, wanted["name"]), Schema(**wanted["schema"])))
            case "GET", [namespace, "tables", name]:
                return _shown(catalog.load_table((namespace, name)))
            case "DELETE", [namespace, "tables", name]:
                catalog.drop_table((namespace, name))
                return "{}"
            case "POST", [namespace, "tables", name]:
                commit = CommitTableRequest.model_validate_json(body)
                table = catalog.load_table((namespace, name))
                done = catalog.commit_table(table, commit.requirements, commit.updates)
                if self.owner.lost_answers:
                    self.owner.lost_answers -= 1
                    return None
                return done.model_dump_json()
        raise NotImplementedError(f"{self.command} {self.path}")

    def log_message(self, *_: Any) -> None:
        """Write no log."""


def _shown(table: Table) -> str:
    response: dict[str, Any] = {"metadata-location": table.metadata_location, "metadata": table.metadata, "config": {}}
    return TableResponse(**response).model_dump_json()

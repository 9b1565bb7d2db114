"""A receiver of JSON by HTTP, as a chat is one."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """A server on loopback that keeps what is posted to it. `endless`: its answer never ends."""

    def __init__(self, *, status: int = 204, endless: bool = False) -> None:
        self.posts: list[tuple[str, str]] = []
        kept = self.posts

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                kept.append((self.headers.get("Authorization", ""), body["text"]))
                self.send_response(200 if endless else status)
                self.send_header("Content-Length", "9" if endless else "0")
                self.end_headers()
                if endless:
                    self.rfile.read(1)  # until the client has gone

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True)
        self.thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/hook"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

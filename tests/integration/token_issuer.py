"""An identity provider that gives signed tokens over HTTPS, as OAuth's client credentials ask for them."""

import base64
import json
import ssl
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from coordinator_tasks.devstack.embedded.ports import HOST
from tests.certificates import Authority

CLIENT, SECRET, SCOPE = "me", 'it\'s "me"', "kafka"
LIFE_S = 600


class TokenIssuer:
    """Knows one client, and believes any signed assertion. `keys` is a file with the public key that checks the tokens."""

    def __init__(self, folder: Path, site: Authority) -> None:
        self._key = rsa.generate_private_key(65537, 2048)
        self.keys = folder / "jwks.json"
        numbers = self._key.public_key().public_numbers()
        public = {
            name: _encoded(value.to_bytes(256).lstrip(b"\0")) for name, value in (("n", numbers.n), ("e", numbers.e))
        }
        self.keys.write_text(json.dumps({"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "k", **public}]}))
        pair = site.sign("issuer")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        self._server = ThreadingHTTPServer((HOST, 0), self._handler())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"https://{HOST}:{self._server.server_port}/token"

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _token(self) -> str:
        now = int(time.time())
        claims = {"sub": CLIENT, "scope": SCOPE, "iat": now, "exp": now + LIFE_S}
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "k"}, claims))
        return f"{signed}.{_encoded(self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self
        login = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = self.rfile.read(int(self.headers["Content-Length"])).decode()
                known = self.headers["Authorization"] == login and f"scope={SCOPE}" in asked
                known |= "jwt-bearer" in asked and "&assertion=" in f"&{asked}"
                body = {"access_token": issuer._token(), "token_type": "Bearer", "expires_in": LIFE_S} if known else {}
                content = json.dumps(body).encode()
                self.send_response(200 if known else 401)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
                """Do not write to the standard error."""

        return Handler


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()

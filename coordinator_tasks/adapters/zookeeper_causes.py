"""Why no server of ZooKeeper grants a session, and the remedy."""

import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass

from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionClosedRequireSaslError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.hosts import collect_hosts

from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.tls_files import bad_certificate

_PROBE_TIMEOUT_S = 1.0
_HANG_UPS = (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError, ssl.SSLZeroReturnError)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an attempt to connect failed. `lasting`: further attempts would fail too."""

    text: str
    lasting: bool = False


class Causes:
    """The last cause of each server, by host and port. One thread writes, other threads read."""

    def __init__(self, access: ZooKeeperAccess) -> None:
        self._access = access
        self._last: dict[tuple[str, int], Cause] = {}
        self._hang_ups: dict[tuple[str, int], Cause] = {}

    def note(self, host: str, ip: str, port: int, error: Exception) -> None:
        """Keep the reason for the failed connection to `host`."""
        cause = _cause(error, self._access)
        if cause is None:
            # The protocol of a port is tested only once.
            cause = self._hang_ups.get((host, port)) or _of_hang_up(ip, port, self._access.tls)
            self._hang_ups[host, port] = cause
        self._last[host, port] = cause

    def lasting(self, hosts: Sequence[tuple[str, int]]) -> str:
        """Return why no attempt can succeed; empty while any server may still grant a session."""
        found = [self._last.get((host.strip(), port)) for host, port in hosts]
        return self.text() if all(one is not None and one.lasting for one in found) else ""

    def text(self) -> str:
        """Return the causes of all servers, each once; empty if no attempt has failed."""
        places: dict[str, list[str]] = {}
        for (host, port), cause in self._last.copy().items():
            places.setdefault(cause.text, []).append(f"{host}:{port}")
        if len(places) == 1:
            return next(iter(places))
        return "; ".join(f"{', '.join(where)}: {text}" for text, where in places.items())

    def forget(self) -> None:
        """Forget all causes, because a server has granted a session."""
        self._last.clear()
        self._hang_ups.clear()


def hung_up(error: Exception) -> bool:
    """Return whether the server accepted the connection and then closed it."""
    cause = error.__context__
    return isinstance(error, ConnectionDropped) and (not isinstance(cause, OSError) or isinstance(cause, _HANG_UPS))


def why_silent(hosts: str) -> str:
    """Return why no attempt has ended, by a plain connection to the first server."""
    try:
        (host, port), *_ = collect_hosts(hosts)[0]
        with socket.create_connection((host, port), timeout=_PROBE_TIMEOUT_S):
            return "the port is open, but nothing there grants a session"
    except (OSError, ValueError) as error:
        return str(error)


def _cause(error: Exception, access: ZooKeeperAccess) -> Cause | None:
    """Return the cause of a failed attempt; `None` if the server only hung up."""
    if hung_up(error):
        return None
    if access.sasl_mechanism and isinstance(error, AuthFailedError | SessionClosedRequireSaslError):
        # The second error is the answer of a server with `sessionRequireClientSASLAuth`.
        whose = f"the password of user {access.user!r}" if access.user else "this principal"
        return Cause(
            f"it refused {whose} (SASL {access.sasl_mechanism}), or knows no such user; correct zookeeper_access.user and "
            "zookeeper_access.password",
            lasting=True,
        )
    if isinstance(error, AuthFailedError):
        who = f"user {access.user!r}" if access.user else "this principal"
        return Cause(
            f"it refuses the log-in of {who} (scheme digest); check the user and the password in the settings",
            lasting=True,
        )
    if isinstance(error, KazooTimeoutError):
        return Cause("it takes connections and does not answer")
    if not isinstance(error, ConnectionDropped):
        # Any other error ends kazoo's thread.
        return Cause(f"kazoo failed with {type(error).__name__}: {error.__cause__ or error}", lasting=True)
    return _of_tls(error.__context__, access) or Cause(str(error.__context__))


def _of_tls(error: BaseException | None, access: ZooKeeperAccess) -> Cause | None:
    if isinstance(error, ssl.SSLCertVerificationError):
        return Cause(bad_certificate(error, access.ca, "zookeeper_access.ca"), lasting=True)
    reason = error.reason or "" if isinstance(error, ssl.SSLError) else ""
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return Cause(_bad_client(access, reason), lasting=True)
    return None


def _bad_client(access: ZooKeeperAccess, alert: str) -> str:
    if not access.certificate:
        return f"it asks for a client certificate ({alert}); set zookeeper_access.certificate and zookeeper_access.key"
    file = access.certificate
    if until := _ended(file):
        return f"it refuses our certificate {file}, which was valid until {until}; renew it"
    return (
        f"it refuses our certificate {file} ({alert}); its authority must be in the server's ssl.trustStore: "
        f"see who signed it with `openssl x509 -noout -issuer -dates -in {file}`"
    )


def _ended(certificate: str) -> str:
    """Return when the certificate in the file expired; empty if it is still valid."""
    try:
        # The ssl module has no public way to read a certificate without a connection.
        until = str(ssl._ssl._test_decode_cert(certificate)["notAfter"])  # type: ignore[attr-defined]  # noqa: SLF001
    except (ssl.SSLError, OSError, KeyError):
        return ""
    return until if ssl.cert_time_to_seconds(until) < time.time() else ""


def _of_hang_up(ip: str, port: int, tls: bool) -> Cause:
    plainly, over_tls = _speaks_plainly(ip, port), _speaks_tls(ip, port)
    if tls and plainly and not over_tls:
        return Cause(
            "this port speaks no TLS; name the server's TLS port (secureClientPort) in the address, "
            "or clear zookeeper_access.ca and zookeeper_access.certificate",
            lasting=True,
        )
    if over_tls and not plainly and not tls:
        return Cause(
            "this port speaks TLS; set zookeeper_access.ca to the file of the authority that signed its certificate, "
            "or name the server's plain port",
            lasting=True,
        )
    return Cause("it hangs up on every connection: it is no ZooKeeper, or too few of its servers run")


def _speaks_plainly(ip: str, port: int) -> bool:
    try:
        with socket.create_connection((ip, port), timeout=_PROBE_TIMEOUT_S) as connection:
            connection.sendall(b"srvr")
            answer = connection.recv(1024)
    except OSError:
        return False
    return b"ookeeper" in answer.lower() or b"whitelist" in answer


def _speaks_tls(ip: str, port: int) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with socket.create_connection((ip, port), timeout=_PROBE_TIMEOUT_S) as connection:
            context.wrap_socket(connection).close()
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")  # the server takes TLS, and asks for a client certificate
    except OSError:
        return False
    return True

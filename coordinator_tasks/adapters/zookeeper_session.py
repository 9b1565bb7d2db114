"""A ZooKeeper session on kazoo: its connection, retried requests, and errors in our terms.

A server that was restored, or lost its data, hangs up on clients that have seen a newer transaction. kazoo would retry
for ever. After a session time-out of hang-ups, the session is given up and a new session begins.

kazoo waits a whole session time-out for a host that is off, or for a lost answer to its log-in. The session would end
meanwhile, so an attempt takes at most a third of the time-out, and a longer time after an unanswered attempt. kazoo 2.11
only logs the granted session time-out, and why a connection failed.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConfigurationError,
    ConnectionClosedError,
    ConnectionDropped,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    OperationTimeoutError,
    SessionClosedRequireSaslError,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from coordinator_tasks.adapters.access_lists import AccessLists
from coordinator_tasks.adapters.kazoo_handler import PollingHandler
from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.adapters.zookeeper_causes import Causes, hung_up, why_silent
from coordinator_tasks.core.errors import (
    BadSettings,
    CoordinatorError,
    LookAgain,
    NoAccess,
    NodeExists,
    NodeMissing,
    StoreUnavailable,
)
from coordinator_tasks.core.ports import Connection

_RECONNECT_PAUSE_S = 0.05
# Retry for ever, at least once a second. kazoo's default pauses double up to an hour.
_RECONNECT = {"max_tries": -1, "delay": 0.1, "backoff": 2, "max_delay": 1.0}
# An attempt to connect takes at most this share of the session time-out, but may always take this many seconds.
_ATTEMPTS, _ATTEMPT_S = 3, 1.0
_CONNECTIONS = {
    KazooState.CONNECTED: Connection.CONNECTED,
    KazooState.SUSPENDED: Connection.SUSPENDED,
    KazooState.LOST: Connection.LOST,
}
_MEANING: dict[type[KazooException], tuple[type[CoordinatorError], str]] = {
    NoNodeError: (NodeMissing, "is not there"),
    NodeExistsError: (NodeExists, "is there already"),
    BadVersionError: (LookAgain, "was changed in between"),
    NotEmptyError: (LookAgain, "has children"),
    NoAuthError: (NoAccess, "may not be used by this ZooKeeper account; check the account, or the node's access list"),
    InvalidACLError: (
        NoAccess,
        "cannot be made for this account alone, since the server takes no log-in from it; for a client certificate set "
        "ssl.clientAuth there, or set zookeeper_access.open_nodes to true",
    ),
}
_LOST = (ConnectionLoss, OperationTimeoutError, SessionExpiredError)
log = logging.getLogger(__name__)
V = TypeVar("V")


class KazooSession:
    """A session, connected when the constructor returns. After an expiry, a new session begins.

    Public attributes that `ports.ZooKeeper` does not have are for this package only. `hosts`:
    `host:port,host:port[/chroot]`. The first `ensure` creates a missing chroot. `answer_timeout_s` limits the
    connecting and every request. Raises `StoreUnavailable` or `Refused`.
    """

    def __init__(
        self,
        hosts: str,
        *,
        session_timeout_s: float = 10.0,
        answer_timeout_s: float = 10.0,
        access: ZooKeeperAccess | None = None,
    ) -> None:
        self._hosts, slash, chroot = hosts.partition("/")
        self.prefix = (slash + chroot).rstrip("/")
        self.limit_s = answer_timeout_s
        self._granted_s = session_timeout_s
        self._ready = threading.Event()
        self._closed = False
        self._hung_up_since_s: float | None = None
        self._unanswered = 0  # attempts in a row that a server did not answer in time
        access = access or ZooKeeperAccess()
        self.access_lists = AccessLists(access)
        self._causes = Causes(access)
        options = access.client_options()
        try:
            self.client = KazooClient(
                self._hosts,
                timeout=session_timeout_s,
                connection_retry=dict(_RECONNECT),
                handler=PollingHandler(self._attempt_limit_s),
                **options,
            )
            for host, _ in self.client.hosts:
                host.encode("idna")  # raises for an impossible host, which would otherwise end kazoo's thread
        except (ConfigurationError, ValueError) as error:
            raise BadSettings(
                f"{hosts!r} is no ZooKeeper address ({error}); write host:port,host:port[/folder], with ports"
            ) from error
        self._note_granted_timeout()
        self.live = self.client.start_async()
        try:
            self._await_first_connection()
        except CoordinatorError:
            # Stopping may take as long as an attempt to connect that is under way.
            threading.Thread(target=self.close, name="zookeeper-give-up", daemon=True).start()
            raise

    def _attempt_limit_s(self) -> float:
        return max(_ATTEMPT_S, self._granted_s * min(1.0, (1 + self._unanswered) / _ATTEMPTS))

    def _note_granted_timeout(self) -> None:
        """Store the time-out that the server grants, which kazoo only logs. At this time the log-in has succeeded."""
        # kazoo tells its listeners only the state, not the granted time-out or why an attempt failed.
        connection = self.client._connection  # noqa: SLF001
        connect, invoke = connection._connect, connection._invoke  # noqa: SLF001

        def invoke_soon(timeout: float, *request: Any, **options: Any) -> Any:  # only an attempt to connect uses this
            return invoke(min(timeout, self._attempt_limit_s()), *request, **options)

        def connect_and_note(host: str, ip: str, port: int) -> tuple[float, float]:
            try:
                read_timeout_ms, connect_timeout_ms = connect(host, ip, port)
            except SessionExpiredError:
                raise
            except ConnectionDropped as error:
                self._causes.note(host, ip, port, error)
                self._note_hang_up(error)
                raise
            except SessionClosedRequireSaslError as error:
                self._causes.note(host, ip, port, error)
                raise AuthFailedError from error  # otherwise kazoo's thread would end with a traceback
            except Exception as error:
                self._unanswered += isinstance(error, KazooTimeoutError)
                self._causes.note(host, ip, port, error)
                raise
            self._hung_up_since_s, self._unanswered = None, 0
            self._causes.forget()
            self._granted_s = read_timeout_ms * 1.5 / 1000  # kazoo reads for two thirds of the session time-out
            self._ready.set()
            return read_timeout_ms, connect_timeout_ms

        connection._connect, connection._invoke = connect_and_note, invoke_soon  # noqa: SLF001

    def _note_hang_up(self, error: ConnectionDropped) -> None:
        """Give up the session if servers have accepted and then closed our connections for a session time-out.

        No server has kept the session alive meanwhile. The next reads may be older than earlier reads, so listeners for
        new sessions must expect older data.
        """
        if not hung_up(error):
            self._hung_up_since_s = None  # no server accepted the connection
            return
        now_s = time.monotonic()
        self._hung_up_since_s = since_s = self._hung_up_since_s or now_s
        if self.client.last_zxid and now_s - since_s >= self._granted_s:
            log.warning(
                "ZooKeeper at %s hangs up on a session that has seen newer data: beginning a new one", self._hosts
            )
            self.client.last_zxid, self._hung_up_since_s = 0, None
            raise SessionExpiredError("the server has older data than this session has seen") from error

    def _await_first_connection(self) -> None:
        deadline_s = time.monotonic() + self.limit_s
        while not self._ready.wait(_RECONNECT_PAUSE_S):
            if text := self._causes.lasting(self.client.hosts):
                raise NoAccess(f"ZooKeeper at {self._hosts} cannot be used: {text}")
            if time.monotonic() > deadline_s:
                raise self._no_answer(self._causes.text() or why_silent(self._hosts))

    def _no_answer(self, reason: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"ZooKeeper at {self._hosts} does not answer within {self.limit_s:g} s: {reason}; "
            "check that it runs and that this address is right"
        )

    def repeat(self, path: str, send: Callable[[], Any], read: Callable[[Any], V]) -> V:
        """Send the request until an answer arrives or the time limit is over."""
        deadline_s = time.monotonic() + self.limit_s
        while True:
            self.await_connection(deadline_s)
            try:
                return read(send().get(timeout=max(0.0, deadline_s - time.monotonic())))
            except ConnectionClosedError as error:
                # kazoo raises this error also while it replaces a connection.
                if self._closed or time.monotonic() >= deadline_s:
                    raise self.translated(error, path) from error
                time.sleep(_RECONNECT_PAUSE_S)
            except _LOST as error:
                if time.monotonic() >= deadline_s:
                    raise self.translated(error, path) from error
            except (KazooException, KazooTimeoutError) as error:
                raise self.translated(error, path) from error

    def await_connection(self, deadline_s: float) -> None:
        """Wait for the connection. Raises `StoreUnavailable` at the deadline."""
        while not self.live.wait(min(0.2, max(0.0, deadline_s - time.monotonic()))):
            if self._closed:
                raise StoreUnavailable("this ZooKeeper session was closed; open a new one")
            if time.monotonic() >= deadline_s:
                raise self._no_answer(self._causes.text() or "the connection is lost")

    def listen(self, listener: Callable[[Connection], None]) -> None:
        def forward(state: str) -> None:
            listener(_CONNECTIONS[state])

        self.client.add_listener(forward)

    @property
    def session_id(self) -> int:
        client_id = self.client.client_id
        return int(client_id[0] or 0) if client_id else 0

    @property
    def session_timeout_s(self) -> float:
        return self._granted_s

    def close(self) -> None:
        self._closed = True
        try:
            self.client.stop()
            self.client.close()
        except (KazooException, OSError, AttributeError) as error:
            # kazoo raises these errors if it has no connection to close.
            log.debug("closing the ZooKeeper session: %s", error)

    def full(self, path: str) -> str:
        return self.prefix + path if path != "/" else self.prefix or "/"

    def translated(self, error: Exception, path: str) -> CoordinatorError:
        for kind, (ours, problem) in _MEANING.items():
            if isinstance(error, kind):
                return ours(f"{path} {problem}")
        if isinstance(error, AuthFailedError):
            return NoAccess(
                f"ZooKeeper at {self._hosts} refuses the log-in; check the user and the password in the settings"
            )
        if isinstance(error, SessionClosedRequireSaslError):
            return NoAccess(
                f"ZooKeeper at {self._hosts} takes only SASL log-ins; set zookeeper_access.sasl_mechanism, user and password"
            )
        if isinstance(error, KazooTimeoutError):
            return self._no_answer("it took the request and said nothing")
        if isinstance(error, _LOST):
            return StoreUnavailable(
                f"the connection to ZooKeeper at {self._hosts} broke during a request for {path} "
                f"({type(error).__name__}); what it wrote may or may not be there: look before trying again"
            )
        return StoreUnavailable(f"ZooKeeper at {self._hosts} failed a request for {path}: {error!r}; see its log")

"""Log-ins to a real ZooKeeper over TLS, by digest and by SASL: a failure names cause and remedy at once.

PLAIN and unknown mechanisms are refused.
"""

import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from coordinator_tasks.adapters.zookeeper import KazooZooKeeper
from coordinator_tasks.adapters.zookeeper_access import ZooKeeperAccess
from coordinator_tasks.adapters.zookeeper_rights import access_list, check_closed
from coordinator_tasks.core.errors import NoAccess, Refused
from coordinator_tasks.devstack.embedded.ports import free_port
from coordinator_tasks.devstack.embedded.zookeeper import EmbeddedZooKeeper
from coordinator_tasks.wiring import Settings
from tests.certificates import DAY, Authority, Pair, tls_settings

QUICK_S = 40.0  # less than the 60 s that every attempt here may take; a quiet machine needs 1 s
ADA, EVE = ZooKeeperAccess("ada", "pw"), ZooKeeperAccess("eve", "other")


@dataclass(frozen=True, slots=True)
class Site:
    """One server: a plain port with SASL, and a TLS port that wants a certificate of the site's authority."""

    folder: Path
    site: Authority
    other: Authority
    server: EmbeddedZooKeeper
    tls_port: int

    @property
    def plain(self) -> str:
        return self.server.connect_string

    @property
    def tls(self) -> str:
        return f"127.0.0.1:{self.tls_port}"

    def access(self, pair: Pair) -> ZooKeeperAccess:
        return ZooKeeperAccess(ca=str(self.site.ca), certificate=str(pair.certificate), key=str(pair.key))


def acl_of(made: Site, path: str, access: ZooKeeperAccess) -> object:
    """The access list of a node as scheme and rights, or `refused`."""
    zk = KazooZooKeeper(made.tls if access.tls else made.plain, access=access)
    try:
        return [(one.id.scheme, one.id.id, one.perms) for one in access_list(zk, path)]
    except Refused:
        return "refused"
    finally:
        zk.close()


def settings_of(made: Site, cluster: str, access: ZooKeeperAccess) -> Settings:
    hosts = made.tls if access.tls else made.plain
    kafka = {"bootstrap.servers": "127.0.0.1:1", "log_level": "0"}
    return Settings(cluster, f"{hosts}/{cluster}", kafka, zookeeper_access=access, answer_timeout_s=60.0)


def new_cluster() -> str:
    return f"c{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with login_site(tmp_path_factory.mktemp("login")) as site:
        yield site


@contextmanager
def login_site(folder: Path, **more: str) -> Iterator[Site]:
    site, other, port = Authority(folder, "site"), Authority(folder, "other"), free_port()
    jaas = folder / "jaas.conf"
    jaas.write_text(
        'Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_ada="pw" user_eve="other"; };\n',
        encoding="ascii",
    )
    sasl = {"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
    with EmbeddedZooKeeper(
        folder / "server",
        settings={**tls_settings(site, site.sign("server"), port), **sasl, **more},
        java_options=(f"-Djava.security.auth.login.config={jaas}",),
    ) as server:
        yield Site(folder, site, other, server, port)


def refusal(hosts: str, access: ZooKeeperAccess) -> str:
    """What a connection is refused with; at once, though it may last a minute."""
    began_s = time.monotonic()
    with pytest.raises(Refused) as caught:
        KazooZooKeeper(hosts, access=access, answer_timeout_s=60.0)
    assert time.monotonic() - began_s < QUICK_S
    return str(caught.value)


# Certificates ----------------------------------------------------------------------------------------------------------

CASES: dict[str, tuple[Callable[[Site], ZooKeeperAccess], str]] = {
    "wrong authority": (
        lambda made: replace(made.access(made.site.sign("ada")), ca=str(made.other.ca)),
        r"cannot be used: its certificate is not signed by an authority in \S+other.pem \(unable to get local issuer "
        r"certificate\); set zookeeper_access.ca",
    ),
    "no client certificate": (
        lambda made: ZooKeeperAccess(ca=str(made.site.ca)),
        r"it asks for a client certificate \(\S+\); set zookeeper_access.certificate and zookeeper_access.key",
    ),
    "expired client certificate": (
        lambda made: made.access(made.site.sign("late", ends_in=-DAY)),
        r"it refuses our certificate \S+site-late.crt, which was valid until .*; renew it",
    ),
    "foreign client certificate": (
        lambda made: made.access(made.other.sign("eve")),
        r"it refuses our certificate \S+other-eve.crt \(\S+\); its authority must be in the server's ssl.trustStore",
    ),
    "no file": (
        lambda made: replace(made.access(made.site.sign("ada")), key=str(made.folder / "none.key")),
        r"^zookeeper_access.key: \S+none.key cannot be read \(No such file or directory\); correct the setting",
    ),
    "certificate that is no PEM": (
        lambda made: replace(made.access(made.site.sign("ada")), certificate=str(made.folder / "jaas.conf")),
        r"jaas.conf and \S+site-ada.key are no certificate and key in PEM",
    ),
    "certificate without its key": (
        lambda made: replace(made.access(made.site.sign("ada")), key=""),
        r"^zookeeper_access.certificate is set, and zookeeper_access.key is not; set both",
    ),
    "key without its certificate": (
        lambda made: replace(made.access(made.site.sign("ada")), certificate=""),
        r"^zookeeper_access.key is set, and zookeeper_access.certificate is not; set both",
    ),
    "encrypted key": (
        lambda made: made.access(made.site.sign("closed", secret="sesame")),
        r"the key \S+site-closed.key is encrypted; set zookeeper_access.key_password to its pass phrase",
    ),
    "encrypted key, wrong pass phrase": (
        lambda made: replace(made.access(made.site.sign("closed", secret="sesame")), key_password="simsim"),
        r"the pass phrase in zookeeper_access.key_password does not open the key \S+site-closed.key; correct it",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_certificate_is_said_at_once(made: Site, case: str) -> None:
    access, expected = CASES[case]
    said = refusal(made.tls, access(made))
    assert re.search(expected, said), said
    assert "sesame" not in said
    assert "simsim" not in said


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("late-server", {"ends_in": -DAY}, r"its certificate is not valid today \(certificate has expired\); renew it"),
        (
            "elsewhere",
            {"address": "10.1.1.1"},
            r"for another host \(IP address mismatch, .*'127.0.0.1'\); use a name that",
        ),
    ],
)
def test_a_wrong_certificate_of_the_server_is_said_at_once(
    made: Site, name: str, options: dict[str, object], expected: str
) -> None:
    port = free_port()
    pair = made.site.sign(name, **options)  # type: ignore[arg-type]
    with EmbeddedZooKeeper(made.folder / name, settings=tls_settings(made.site, pair, port)):
        said = refusal(f"127.0.0.1:{port}", made.access(made.site.sign("ada")))
        assert re.search(expected, said), said
        # One such server does not end the search.
        KazooZooKeeper(f"127.0.0.1:{port},{made.tls}", access=made.access(made.site.sign("ada"))).close()


def test_tls_to_a_plain_port_and_the_reverse_are_said_at_once(made: Site) -> None:
    said = refusal(made.plain, made.access(made.site.sign("ada")))
    assert "cannot be used: this port speaks no TLS; name the server's TLS port (secureClientPort)" in said
    said = refusal(made.tls, ZooKeeperAccess())
    assert "cannot be used: this port speaks TLS; set zookeeper_access.ca to the file of the authority" in said


@pytest.mark.parametrize("secret", ["", "sesame"], ids=["open key", "encrypted key"])
def test_a_certificate_logs_in(made: Site, secret: str) -> None:
    pair = made.site.sign(f"user-{len(secret)}", secret=secret)
    zk = KazooZooKeeper(made.tls, access=replace(made.access(pair), key_password=secret))
    zk.ensure(f"/in-{len(secret)}")
    zk.close()


def test_a_certificate_that_the_server_does_not_ask_for_is_no_login(made: Site) -> None:
    port = free_port()
    settings = tls_settings(made.site, made.site.sign("server"), port, client_auth="none")
    with EmbeddedZooKeeper(made.folder / "unasked", settings=settings):
        zk = KazooZooKeeper(f"127.0.0.1:{port}", access=made.access(made.site.sign("ada")))
        with pytest.raises(
            Refused, match=r"/x cannot be made for this account alone, .*; for a client certificate set"
        ):
            zk.ensure("/x")
        zk.close()


# SASL ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("user", "password"), [("ada", "wrong"), ("bob", "pw")])
def test_a_wrong_sasl_login_is_said_at_once(made: Site, user: str, password: str) -> None:
    said = refusal(made.plain, ZooKeeperAccess(user, password, "DIGEST-MD5"))
    assert (
        f"it refused the password of user '{user}' (SASL DIGEST-MD5), or knows no such user; correct zookeeper_access"
        in said
    )
    assert password not in said.replace("password", "")


def test_a_server_that_demands_a_sasl_login_says_that_it_refused_the_password(tmp_path: Path) -> None:
    with login_site(tmp_path, sessionRequireClientSASLAuth="true") as made:
        said = refusal(made.plain, ZooKeeperAccess("ada", "wrong", "DIGEST-MD5"))
        assert "it refused the password of user 'ada' (SASL DIGEST-MD5), or knows no such user" in said
        without = KazooZooKeeper(made.plain, answer_timeout_s=10.0)
        with pytest.raises(NoAccess, match=r"takes only SASL log-ins; set zookeeper_access\.sasl_mechanism"):
            without.ensure("/x")
        without.close()


def test_a_sasl_login_closes_its_nodes(made: Site) -> None:
    zk = KazooZooKeeper(made.plain, access=ZooKeeperAccess("ada", "pw", "DIGEST-MD5"))
    zk.ensure("/sasl")
    check_closed(zk, ["/sasl"])
    zk.close()
    assert acl_of(made, "/sasl", ZooKeeperAccess()) == "refused"


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (
            ZooKeeperAccess("ada", "pw", "PLAIN"),
            "has no SASL mechanism 'PLAIN'; set zookeeper_access.sasl_mechanism to",
        ),
        (ZooKeeperAccess("", "", "DIGEST-MD5"), "needs a user and a password; set zookeeper_access.user and"),
    ],
)
def test_a_sasl_login_that_no_server_accepts_is_refused(made: Site, access: ZooKeeperAccess, expected: str) -> None:
    assert expected in refusal(made.plain, access)

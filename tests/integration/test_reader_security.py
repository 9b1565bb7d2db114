"""The reader's Java client logs in to a real Kafka with the settings files that librdkafka takes."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from confluent_kafka.cimpl import NewTopic
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import PrivateFormat, pkcs12
from cryptography.x509 import load_pem_x509_certificate

from coordinator_tasks.devstack.embedded.jars import pyspark_home
from coordinator_tasks.devstack.embedded.processes import ProcessSpec
from coordinator_tasks.devstack.java_compiler import compile_sources, kafka_clients, provided_jars
from coordinator_tasks.devstack.reader_jar import SOURCES
from coordinator_tasks.java import QUICK_START_OPTIONS, find_java
from tests.certificates import Authority
from tests.integration.secure_kafka import MODULE as SCRAM
from tests.integration.token_issuer import CLIENT, SCOPE, SECRET, TokenIssuer
from tests.sasl_kafka import SaslKafka

pytestmark = pytest.mark.integration

PROBE = Path(__file__).parents[1] / "jvm" / "SettingsProbe.java"
ANSWER = "answer: "
TOPIC = "orders"
PASSWORD = "p;\"w\\ 'ö"
LISTENER = "listener.name.sasl."
OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearer"
LIMIT_S = 20


class TlsKafka(SaslKafka):
    """A broker whose second listener has TLS; `url` is an address that its Java may read keys of tokens from."""

    def __init__(
        self, folder: Path, site: Authority, protocol: str, settings: Mapping[str, str], url: str = ""
    ) -> None:
        self._url = url
        given = {
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:{protocol}",
            f"{LISTENER}ssl.keystore.type": "PEM",
            f"{LISTENER}ssl.keystore.location": str(site.sign("broker").both),
            **settings,
        }
        super().__init__(folder, users={"alice": "alice-pw"}, settings=given)

    def _spec(self) -> ProcessSpec:
        spec, variable = super()._spec(), "JDK_JAVA_OPTIONS"
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={self._url}"
        return replace(spec, env={**spec.env, variable: f"{spec.env[variable]} {allowed}"})


class Clients:
    """Both clients, asked for the end of the topic's partition with settings files."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._classes = folder, folder / "classes"
        compile_sources([SOURCES, PROBE], provided_jars(), self._classes)

    def check(self, *settings: Mapping[str, str]) -> None:
        assert [_end(one) for one in settings] == ["end 0"] * len(settings)
        assert self.java(*settings) == ["end 0"] * len(settings)

    def java(self, *settings: Mapping[str, str]) -> list[str]:
        """The answer to each file: the end of the log, or the error."""
        paths = [self._folder / f"{number}.json" for number in range(len(settings))]
        for path, content in zip(paths, settings, strict=True):
            path.touch(mode=0o600)
            path.write_text(json.dumps(content))
        jars = [str(self._classes), str(kafka_clients()), str(pyspark_home() / "jars" / "*")]
        command = [str(find_java().executable), *QUICK_START_OPTIONS, "-cp", os.pathsep.join(jars)]
        command += ["partitioncoordinator.spark.SettingsProbe", TOPIC, *map(str, paths)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        return [line.removeprefix(ANSWER) for line in done.stdout.splitlines() if line.startswith(ANSWER)]


def _end(settings: Mapping[str, str]) -> str:
    consumer = Consumer({"group.id": "probe", **settings})
    try:
        return f"end {consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), LIMIT_S)[1]}"
    finally:
        consumer.close()


def _make_topic(broker: SaslKafka) -> AdminClient:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for made in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
        made.result(30)
    return admin


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Clients:
    return Clients(tmp_path_factory.mktemp("clients"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"), "site")


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory, site: Authority) -> Iterator[TokenIssuer]:
    made = TokenIssuer(tmp_path_factory.mktemp("issuer"), site)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def login(tmp_path_factory: pytest.TempPathFactory, site: Authority, issuer: TokenIssuer) -> Iterator[dict[str, str]]:
    """The settings of a client but for its log-in."""
    keys = issuer.keys.as_uri()
    settings = {
        f"{LISTENER}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        f"{LISTENER}scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
        f"{LISTENER}oauthbearer.sasl.jaas.config": f"{OAUTH}LoginModule required;",
        f"{LISTENER}oauthbearer.sasl.server.callback.handler.class": f"{OAUTH}ValidatorCallbackHandler",
        f"{LISTENER}oauthbearer.sasl.oauthbearer.jwks.endpoint.url": keys,
    }
    with TlsKafka(tmp_path_factory.mktemp("kafka"), site, "SASL_SSL", settings, keys) as broker:
        admin = _make_topic(broker)
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
        user = UserScramCredentialUpsertion("bob", info, PASSWORD.encode())
        admin.alter_user_scram_credentials([user])["bob"].result(30)  # type: ignore[arg-type]
        brokers = {"metadata.broker.list": broker.sasl_bootstrap_servers, "log_level": "1"}
        yield {**brokers, "security.protocol": "sasl_ssl", "ssl.ca.location": str(site.ca)}


def test_log_ins_by_password(clients: Clients, login: dict[str, str]) -> None:
    plain = {"sasl.mechanisms": "PLAIN", "sasl.username": "alice", "sasl.password": "alice-pw"}
    scram = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "bob", "sasl.password": PASSWORD}
    clients.check({**login, **plain}, {**login, **scram})
    wrong, missing, foreign = clients.java(
        {**login, **plain, "sasl.password": "guess"},
        {**login, **scram, "sasl.password": ""},
        {**{name: value for name, value in login.items() if name != "ssl.ca.location"}, **plain},
    )
    assert "SaslAuthenticationException" in wrong
    assert "guess" not in wrong
    assert "BadSettings: Kafka asks for a log-in by SCRAM-SHA-256, and the executors have no sasl.password" in missing
    assert "SslAuthenticationException" in foreign


def test_a_log_in_by_token(clients: Clients, login: dict[str, str], issuer: TokenIssuer, site: Authority) -> None:
    token = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": CLIENT,
        "sasl.oauthbearer.client.secret": SECRET,
        "sasl.oauthbearer.scope": SCOPE,
        "sasl.oauthbearer.token.endpoint.url": issuer.url,
    }
    by_file, by_text = {"https.ca.location": str(site.ca)}, {"https.ca.pem": site.ca.read_text()}
    clients.check({**login, **token, **by_file}, {**login, **token, **by_text})
    asserted = {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "sasl.oauthbearer.token.endpoint.url": issuer.url,
        "sasl.oauthbearer.scope": SCOPE,
        "sasl.oauthbearer.assertion.algorithm": "ES256",
        "sasl.oauthbearer.assertion.private.key.file": str(site.sign("assertion").key),
        "sasl.oauthbearer.assertion.claim.iss": CLIENT,
        "sasl.oauthbearer.assertion.claim.sub": CLIENT,
        "sasl.oauthbearer.assertion.claim.aud": "issuer",
    }
    clients.check({**login, **asserted, **by_file})
    (wrong,) = clients.java({**login, **token, **by_file, "sasl.oauthbearer.client.secret": "guess"})
    assert "ReadFailed: the executors cannot log in to Kafka" in wrong
    assert "guess" not in wrong


def test_client_certificates(clients: Clients, site: Authority, tmp_path: Path) -> None:
    pair, secret = site.sign("reader"), b"pass phrase"
    key = serialization.load_pem_private_key(pair.key.read_bytes(), None)
    certificate = load_pem_x509_certificate(pair.certificate.read_bytes())
    encryption, plain = serialization.BestAvailableEncryption(secret), serialization.NoEncryption()
    texts = {
        "pkcs8.pem": key.private_bytes(serialization.Encoding.PEM, PrivateFormat.PKCS8, plain),
        "encrypted.pem": key.private_bytes(serialization.Encoding.PEM, PrivateFormat.PKCS8, encryption),
        "old.pem": key.private_bytes(serialization.Encoding.PEM, PrivateFormat.TraditionalOpenSSL, plain),
        "reader.p12": pkcs12.serialize_key_and_certificates(b"reader", key, certificate, None, encryption),  # type: ignore[arg-type]
    }
    files = {name: tmp_path / name for name in texts}
    for name, text in texts.items():
        files[name].write_bytes(text)
    password, public = {"ssl.key.password": secret.decode()}, {"ssl.certificate.location": str(pair.certificate)}
    settings = {
        f"{LISTENER}ssl.client.auth": "required",
        f"{LISTENER}ssl.truststore.type": "PEM",
        f"{LISTENER}ssl.truststore.location": str(site.ca),
    }
    with TlsKafka(tmp_path / "kafka", site, "SSL", settings) as broker:
        _make_topic(broker)
        common = {"bootstrap.servers": broker.sasl_bootstrap_servers, "security.protocol": "SSL", "log_level": "1"}
        trusting = {**common, "ssl.ca.location": str(site.ca)}
        clients.check(
            {**trusting, **public, "ssl.key.location": str(files["pkcs8.pem"])},
            {**trusting, **public, "ssl.key.location": str(files["pkcs8.pem"]), **password},
            {**trusting, **public, "ssl.key.location": str(files["encrypted.pem"]), **password},
            {**trusting, **public, "ssl.key.location": str(files["old.pem"])},
            {**trusting, "ssl.keystore.location": str(files["reader.p12"]), "ssl.keystore.password": secret.decode()},
            {**trusting, "ssl.certificate.location": str(pair.both), "ssl.key.location": str(pair.both)},
            {
                **common,
                "ssl.ca.pem": site.ca.read_text(),
                "ssl.certificate.pem": pair.certificate.read_text(),
                "ssl.key.pem": pair.key.read_text(),
                "ssl.cipher.suites": "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-CHACHA20-POLY1305",
            },
        )
        wrong, none = clients.java(
            {**trusting, **public, "ssl.key.location": str(files["encrypted.pem"]), "ssl.key.password": "guess"},
            trusting,
        )
    assert "BadSettings" in wrong
    assert "guess" not in wrong
    assert "SslAuthenticationException" in none

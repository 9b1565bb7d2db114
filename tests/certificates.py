"""Certificates for tests of TLS: authorities, and what they sign, as PEM files."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, each in a file of its own; `both` holds the two of them."""

    certificate: Path
    key: Path
    both: Path


class Authority:
    """An authority of its own in `folder`; `ca` is the file that its clients trust."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder, self._name = folder, name
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        made = self._builder(name, self._key, DAY).add_extension(x509.BasicConstraints(True, None), critical=True)
        self._certificate = made.sign(self._key, hashes.SHA256())
        self.ca = folder / f"{name}.pem"
        self.ca.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def sign(
        self, name: str, *, address: str = "127.0.0.1", ends_in: datetime.timedelta = DAY, secret: str = ""
    ) -> Pair:
        """A certificate for `CN=name`, for localhost under `address`; `secret` is the pass phrase of the key."""
        key = ec.generate_private_key(ec.SECP256R1())
        hosts = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address)), x509.DNSName("localhost")])
        made = self._builder(name, key, ends_in).add_extension(hosts, critical=False)
        certificate = made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        kept: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if secret:
            kept = serialization.BestAvailableEncryption(secret.encode())
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, kept)
        files = [self._folder / f"{self._name}-{name}.{part}" for part in ("crt", "key", "both")]
        for file, content in zip(files, (certificate, private, private + certificate), strict=True):
            file.write_bytes(content)
        return Pair(*files)

    def _builder(
        self, name: str, key: ec.EllipticCurvePrivateKey, ends_in: datetime.timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self._name)])
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 30 * DAY)
            .not_valid_after(now + ends_in)
        )


def tls_settings(authority: Authority, pair: Pair, port: int, client_auth: str = "need") -> dict[str, str]:
    """Lines of ZooKeeper's configuration for a TLS port that shows `pair`; `client_auth`: `need` or `none`."""
    return {
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "secureClientPort": str(port),
        "ssl.keyStore.location": str(pair.both),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(authority.ca),
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": client_auth,
    }

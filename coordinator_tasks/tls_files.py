"""Certificates and keys in files: loaded, or refused with an error that names the setting."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from coordinator_tasks.core.errors import BadSettings

# The values of OpenSSL's X509_V_ERR_* in openssl/x509_vfy.h.
_OUT_OF_TIME, _OTHER_HOST = (9, 10), (62, 64)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """`ca`, `certificate` and `key` are files in PEM; `key_password` is an encrypted key's pass phrase. Optional.

    For errors: `settings` is the prefix of the settings' names, `purpose` names the function that needs the files.
    """

    settings: str
    purpose: str
    ca: str = ""
    certificate: str = ""
    key: str = ""
    key_password: str = field(default="", repr=False)

    def check_complete(self) -> None:
        """Raise `Refused` if there is a certificate without a key, or a key without a certificate."""
        if bool(self.certificate) != bool(self.key):
            there, missing = ("certificate", "key") if self.certificate else ("key", "certificate")
            raise BadSettings(
                f"{self.settings}{there} is set, and {self.settings}{missing} is not; "
                "set both (to the same file where it holds both), or neither"
            )

    def load(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """Load the files into `context` and return it. Raises `BadSettings`, which names the file and the problem."""
        self.check_complete()
        for name in ("ca", "certificate", "key"):
            self._check_readable(name, getattr(self, name))
        if self.ca:
            try:
                context.load_verify_locations(self.ca)
            except ssl.SSLError as error:
                raise BadSettings(
                    f"{self.settings}ca: {self.ca} holds no certificate in PEM ({error.reason}); correct the file"
                ) from error
        if self.certificate:
            self._load_pair(context)
        return context

    def _load_pair(self, context: ssl.SSLContext) -> None:
        asked: list[bool] = []

        def pass_phrase() -> str:
            asked.append(True)
            return self.key_password

        setting = f"{self.settings}key_password"
        try:
            context.load_cert_chain(self.certificate, self.key, pass_phrase)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                problem = f"the key {self.key} does not belong to the certificate {self.certificate}; name its own key"
            elif asked and not self.key_password:
                problem = f"the key {self.key} is encrypted; set {setting} to its pass phrase"
            elif asked:
                problem = f"the pass phrase in {setting} does not open the key {self.key}; correct it"
            else:
                problem = f"{self.certificate} and {self.key} are no certificate and key in PEM ({error.reason}); correct them"
            raise BadSettings(f"{self.purpose} fails: {problem}") from error

    def _check_readable(self, name: str, path: str) -> None:
        if not path:
            return
        try:
            with Path(path).open("rb") as file:
                file.read(1)
        except OSError as error:
            raise BadSettings(
                f"{self.settings}{name}: {path} cannot be read ({error.strerror}); correct the setting, or the file's mode"
            ) from error


def bad_certificate(error: ssl.SSLCertVerificationError, ca: str, setting: str) -> str:
    """Return, as the end of a sentence, why a server's certificate is refused, and the remedy. `setting`: of `ca`."""
    said = error.verify_message.rstrip(".")
    if error.verify_code in _OUT_OF_TIME:
        return f"its certificate is not valid today ({said}); renew it, or correct this host's clock"
    if error.verify_code in _OTHER_HOST:
        return (
            f"its certificate is for another host ({said}); "
            "use a name that stands in the certificate, or give the server a certificate for this name"
        )
    trusted = f"an authority in {ca}" if ca else "an authority that this host knows"
    return f"its certificate is not signed by {trusted} ({said}); set {setting} to the file of the authority that signed it"

"""The findings of `doctor`, one for each check."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from coordinator_tasks.adapters.server_versions import NOT_TOLD
from coordinator_tasks.core.errors import CoordinatorError


class CheckResult(StrEnum):
    """The result of a check. `WARNING`: everything works, but an account has unnecessary rights, or a part is slow."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One check: the finding as a sentence, and the remedy; empty if nothing is to be done."""

    check: str
    result: CheckResult
    says: str
    mend: str = ""


def good(check: str, says: str) -> DoctorFinding:
    """Return the finding of a check that has passed."""
    return DoctorFinding(check, CheckResult.OK, says)


def warning(check: str, says: str, mend: str) -> DoctorFinding:
    """Return a finding that stops nothing, with the remedy."""
    return DoctorFinding(check, CheckResult.WARNING, says, mend)


def failure(check: str, says: str, mend: str) -> DoctorFinding:
    """Return the finding of a check that has failed, with the remedy."""
    return DoctorFinding(check, CheckResult.FAILED, says, mend)


def broken(check: str, error: CoordinatorError, result: CheckResult = CheckResult.FAILED) -> DoctorFinding:
    """Return the finding of a check that has failed. The text of the error ends with the remedy."""
    says, _, mend = str(error).rpartition("; ")
    page = f"see {error.code} in docs/errors.md"
    return DoctorFinding(check, result, says or mend, f"{mend} ({page})" if says else page)


def servers(check: str, versions: Mapping[str, str]) -> DoctorFinding:
    """Return each version once, with its servers if versions differ. A server that is down has no version."""
    places: dict[str, list[str]] = {}
    for server, version in versions.items():
        places.setdefault(version, []).append(server)
    if len(places) == 1:
        return good(check, next(iter(places)))
    told = "; ".join(f"{version}: {', '.join(servers)}" for version, servers in sorted(places.items()))
    if len(places.keys() - {NOT_TOLD}) < 2:
        return good(check, told)
    return warning(check, told, "run the same version on all servers, unless an upgrade is under way")


def failed(findings: Sequence[DoctorFinding]) -> bool:
    """Return whether a check has failed."""
    return any(one.result is CheckResult.FAILED for one in findings)

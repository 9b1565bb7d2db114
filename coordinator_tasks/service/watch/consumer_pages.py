"""Links to a consumer's Spark UI and driver log. Writes nothing."""

from collections.abc import Collection
from dataclasses import dataclass

from coordinator_tasks import links
from coordinator_tasks.core.model import IdClaim, Member
from coordinator_tasks.core.text.partition_text import cut
from coordinator_tasks.service.coordinator import Coordinator
from coordinator_tasks.service.nodes.observe import load_claims, load_members


@dataclass(frozen=True, slots=True)
class ConsumerPages:
    """Addresses of the pages of one `incarnation`; empty if unknown. `problems`: reported texts that are no address."""

    spark_ui: str = ""
    driver_log: str = ""
    incarnation: int = 0
    problems: tuple[str, ...] = ()


NO_PAGES = ConsumerPages()


def pages_of(c: Coordinator, consumer: str, member: Member | None, claim: IdClaim | None) -> ConsumerPages:
    """Return the pages of the consumer's present process.

    For an unregistered consumer, return the log of its last process, if the site's address is enough to find it.
    """
    ui, application = (member.spark_ui, member.application_id) if member is not None else ("", "")
    problems = []
    if ui and not links.is_page(ui):
        problems.append(
            f"its Spark UI is said to be at {cut(ui, 80)!r}, which is no address of a page; no link is shown"
        )
        ui = ""
    if application and not links.is_application(application):
        problems.append(f"its Spark application is said to be {cut(application, 80)!r}, which is no id; it is left out")
        application = ""
    incarnation = member.incarnation if member is not None else claim.incarnation if claim is not None else 0
    address = member.address if member is not None else claim.address if claim is not None else ""
    values = {
        "cluster": c.paths.cluster,
        "consumer": consumer,
        "host": links.host_of(address),
        "incarnation": str(incarnation or ""),
        "application_id": application,
    }
    return ConsumerPages(ui, links.log_page(c.log_url, values) if c.log_url else "", incarnation, tuple(problems))


def pages_now(c: Coordinator, consumers: Collection[str]) -> dict[str, ConsumerPages]:
    """Return the pages of those consumers that have pages. No consumer is asked. Raises the `Unavailable` kinds."""
    unclear = dict[str, str]()
    members, claims = load_members(c, unclear), load_claims(c, consumers, unclear)
    found = {one: pages_of(c, one, members.get(one), claims.get(one)) for one in sorted(consumers)}
    return {one: pages for one, pages in found.items() if pages.spark_ui or pages.driver_log}

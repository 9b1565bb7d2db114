"""Addresses of pages about a consumer, for persons: its Spark UI, and its driver's log. Pure.

The address of the Spark UI comes from the consumer, the addresses of drivers' logs come from the site (`log_url`).
Neither is trusted: only plain `http` and `https` addresses of limited length become links.
"""

import re
from collections.abc import Mapping
from urllib.parse import quote, urlsplit

from coordinator_tasks.core.names import is_address
from coordinator_tasks.core.text.json_fields import MAX_LINK_CHARS

MAX_TEMPLATE_CHARS = 1_000
PLACEHOLDERS = ("cluster", "consumer", "host", "incarnation", "application_id")
_PARTS = re.compile(
    r"(https?://(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+))(:[0-9]{1,5})?(/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?(.*)"
)
_REST = re.compile(r"(?:\?[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?(?:#[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_APPLICATION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def is_page(text: str, *, query: bool = False) -> bool:
    """Whether this is `http(s)://host[:port][/path]`, without user and blanks. `query`: with query and fragment."""
    found = _PARTS.fullmatch(text) if len(text) <= MAX_LINK_CHARS else None
    if found is None or not is_address(found[1] + (found[2] or ":80")):
        return False
    return _REST.fullmatch(found[4]) is not None if query else not found[4]


def is_application(text: str) -> bool:
    """Return whether this may be the id of a Spark application, such as `application_1700000000000_0001` or
    `app-20261125-0000`.
    """
    return _APPLICATION.fullmatch(text) is not None


def why_no_template(template: str) -> str:
    """Return the problem with a site's `log_url`; empty without a problem."""
    if len(template) > MAX_TEMPLATE_CHARS:
        return f"it has {len(template)} characters, more than {MAX_TEMPLATE_CHARS}"
    unknown = next((name for name in _PLACEHOLDER.findall(template) if name not in PLACEHOLDERS), None)
    if unknown is not None:
        known = ", ".join(f"{{{one}}}" for one in PLACEHOLDERS)
        return f"there is no placeholder {{{unknown}}}; the known ones are {known}"
    example = log_page(template, dict.fromkeys(PLACEHOLDERS, "x"))
    return "" if example else "it is no address; give http://host/path or https://host/path"


def log_page(template: str, values: Mapping[str, str]) -> str:
    """Return the address of a driver's log; empty if a value is missing or the result is invalid.

    `values`: placeholder → value. Each value is quoted, so that it cannot add a path, a query or a host.
    """
    found = template
    for name in PLACEHOLDERS:
        if f"{{{name}}}" not in template:
            continue
        if not values.get(name):
            return ""
        found = found.replace(f"{{{name}}}", quote(values[name], safe="[:]" if name == "host" else ""))
    return found if is_page(found, query=True) else ""


def host_of(address: str) -> str:
    """Return the host of an address. An IPv6 host keeps its brackets, which another address needs too."""
    host = urlsplit(address).hostname or ""
    return f"[{host}]" if ":" in host else host

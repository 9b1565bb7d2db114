"""Addresses of pages about a consumer that a person may open: its Spark UI, and its driver's log. Pure.

A consumer says where its Spark UI is, and a site says where drivers' logs are (`log_url`). Neither is believed: what is not a plain
`http` or `https` address of bounded length is no link.
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
    """Whether this is `http(s)://host[:port][/path]`; with `query` also with a query and a fragment. No user, no blanks."""
    found = _PARTS.fullmatch(text) if len(text) <= MAX_LINK_CHARS else None
    if found is None or not is_address(found[1] + (found[2] or ":80")):
        return False
    return _REST.fullmatch(found[4]) is not None if query else not found[4]


def is_application(text: str) -> bool:
    """Whether this may be the id of a Spark application, such as `application_1700000000000_0001` or `app-20261125-0000`."""
    return _APPLICATION.fullmatch(text) is not None


def why_no_template(template: str) -> str:
    """What is wrong with a site's `log_url`; empty = nothing."""
    if len(template) > MAX_TEMPLATE_CHARS:
        return f"it has {len(template)} characters, more than {MAX_TEMPLATE_CHARS}"
    unknown = next((name for name in _PLACEHOLDER.findall(template) if name not in PLACEHOLDERS), None)
    if unknown is not None:
        known = ", ".join(f"{{{one}}}" for one in PLACEHOLDERS)
        return f"there is no placeholder {{{unknown}}}; the known ones are {known}"
    example = log_page(template, dict.fromkeys(PLACEHOLDERS, "x"))
    return "" if example else "it is no address; give http://host/path or https://host/path"


def log_page(template: str, values: Mapping[str, str]) -> str:
    """The address of a driver's log; empty if the template needs what is not known, or no address comes of it.

    `values`: by placeholder. Each is put in as one quoted piece, so that none adds a path, a query or a host of its own.
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
    """The host of an address, with the brackets that an IPv6 address needs in another one."""
    host = urlsplit(address).hostname or ""
    return f"[{host}]" if ":" in host else host

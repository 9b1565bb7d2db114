"""Which addresses of consumers' interfaces the coordinator may ask. Pure."""

from ipaddress import ip_address

PLAIN = (
    "it is registered with plain http, and status_ca asks for TLS: nothing is sent to it; give it status_certificate and "
    "status_key, and restart it"
)


def is_plain(address: str) -> bool:
    """Return whether data sent to the address (such as the status token) is not encrypted."""
    return not address.lower().startswith("https://")


def is_loopback(host: str) -> bool:
    """Return whether only processes on the same host reach this address or name."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

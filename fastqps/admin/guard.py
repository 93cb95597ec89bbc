"""Authorizes requests on the admin port."""

from __future__ import annotations

import ipaddress
from typing import Protocol

from fastqps.admin.http import Answer, Request

CHANGES = ("/reload", "/limits")  # requests that change the server


class Guarded(Protocol):
    """The store of the accepted tokens."""

    def admits(self, authorization: str) -> bool:
        """Whether this authorization header is accepted."""

    def on_loopback(self) -> bool:
        """Whether only this machine can reach the admin port."""

    def open_to_others(self) -> bool:
        """Whether other machines can reach the admin port, and no token is needed."""


def refusal(guarded: Guarded, request: Request) -> Answer | None:
    """The answer to a request without access."""
    host = request.headers.get("host", "")
    if guarded.on_loopback() and not _is_local(host):
        return Answer.text(403, f"the host {host[:100]} is not this machine's; ask for localhost or 127.0.0.1")
    if request.method != "POST":
        return None
    if "origin" in request.headers:  # a browser's page, of any site, which loopback does not keep out
        return Answer.text(403, "pages in a browser may not POST here")
    if not guarded.admits(request.headers.get("authorization", "")):
        text = b"this server needs the header authorization: Bearer TOKEN, with one of its tokens\n"
        return Answer(401, text, "text/plain; charset=utf-8", challenge="Bearer")
    if request.path in CHANGES and guarded.open_to_others():
        return Answer.text(403, f"{request.path} needs --auth-token-file where --admin-host is not loopback")
    return None


def _is_local(host: str) -> bool:
    """Whether a Host header names no other site. A page of another site reaches loopback only by that site's name, if
    its DNS answers with 127.0.0.1."""
    name = host.rpartition(":")[0] if host.rpartition("]")[2].count(":") == 1 else host
    if name in ("", "localhost"):
        return True
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True

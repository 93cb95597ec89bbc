"""An edge in front of servers of the tests' echo dispatchers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from serving import Server, until
from upstream_state import serving


@pytest.fixture
def upstream(serve: Callable[..., Server]) -> Callable[..., Server]:
    """Starts a server whose answers show what they answer."""
    return lambda *flags, **options: serve("--frontdoors=1", "--dispatchers=1", *flags, **{"echo": True, **options})


@pytest.fixture
def edge(serve: Callable[..., Server]) -> Callable[..., Server]:
    """Starts an edge in front of servers, or of addresses."""

    def start(*upstreams: Server | str, flags: tuple[str, ...] = (), **options: Any) -> Server:
        addresses = [each if isinstance(each, str) else each.address for each in upstreams]
        found = serve(
            "--device=remote", "--frontdoors=1", *(f"--upstream={address}" for address in addresses), *flags, **options
        )
        for address in addresses:
            until(lambda address=address: serving(found, address), f"{address} serves\n{found.log()}")
        return found

    return start

"""The credentials for a server at an address, TLS and a token, for the client and for the load generator."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Access:
    """All but ``token`` are paths; "": not used. ``token`` is what ``token_file`` holds: the load generator reads the
    file itself, so that no command line and no report shows the token."""

    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    token_file: str = ""
    token: str = field(default="", repr=False)

    @property
    def client_options(self) -> dict[str, Any]:
        """The options of a ``Client``."""
        return {"tls_ca": self.tls_ca, "tls_cert": self.tls_cert, "tls_key": self.tls_key, "token": self.token}

    @property
    def generator_flags(self) -> list[str]:
        """The flags of ``python -m loadgen`` for the access."""
        paths = {name: getattr(self, name) for name in ("tls_ca", "tls_cert", "tls_key", "token_file")}
        return [part for name, path in paths.items() if path for part in (f"--{name.replace('_', '-')}", path)]

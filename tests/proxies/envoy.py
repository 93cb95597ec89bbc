"""Envoy, from examples/proxies/envoy.yaml; before HTTP ports, from envoy-http.yaml."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import yaml
from ports import free_port
from serving import PATIENCE_S

from proxies.proxy import EXAMPLES, Certificates, Proxy

POLICIES = "type.googleapis.com/envoy.extensions.load_balancing_policies"
TLS_CONTEXT = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
# Load reports count at once and are used five times a second; the defaults are 10 s and 1 s.
WEIGHTED = {
    "name": "envoy.load_balancing_policies.client_side_weighted_round_robin",
    "typed_config": {
        "@type": f"{POLICIES}.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin",
        "blackout_period": "0.1s",
        "weight_update_period": "0.2s",
        "weight_expiration_period": "10s",
    },
}


class Envoy(Proxy):
    """``weighted``: it shares calls out by the load that servers report; else by its open requests."""

    program = "envoy"
    example: ClassVar[str] = "envoy.yaml"

    def __init__(
        self,
        backends: Sequence[str],
        *,
        admins: Sequence[str] = (),
        tls: Certificates | None = None,
        weighted: bool = False,
    ) -> None:
        self._weighted = weighted
        self.admin_port = free_port()
        super().__init__(backends, admins=admins, tls=tls)

    def configuration(self) -> str:
        config = yaml.safe_load((EXAMPLES / self.example).read_text())
        resources = config["static_resources"]
        listener, cluster = resources["listeners"][0], resources["clusters"][0]
        listener["address"] = socket_address(self.address)
        cluster["load_assignment"]["endpoints"][0]["lb_endpoints"] = [
            {"endpoint": {"address": socket_address(backend)}} for backend in self.backends
        ]
        if self._weighted:
            del cluster["lb_policy"]
            cluster["load_balancing_policy"] = {"policies": [{"typed_extension_config": WEIGHTED}]}
        if self.tls:
            cluster["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": self._tls_context()}
        config["admin"] = {"address": socket_address(f"127.0.0.1:{self.admin_port}")}
        return json.dumps(config, indent=1)

    def _tls_context(self) -> dict[str, object]:
        assert self.tls
        common: dict[str, Any] = {
            "alpn_protocols": ["h2"],
            "validation_context": {"trusted_ca": {"filename": str(self.tls.ca)}},
        }
        if self.tls.certificate:
            pair = {"certificate_chain": self.tls.certificate, "private_key": self.tls.key}
            common["tls_certificates"] = [{name: {"filename": str(path)} for name, path in pair.items()}]
        return {"@type": TLS_CONTEXT, "common_tls_context": common, "sni": "localhost"}

    def arguments(self, config: Path) -> list[str]:
        named = config.with_suffix(".json")
        config.rename(named)
        return ["-c", str(named), "--use-dynamic-base-id", "--concurrency", "1", "--log-level", "warning"]

    def healthy(self) -> int:
        """How many backends its health checks have found good."""
        at = f"http://127.0.0.1:{self.admin_port}/stats?format=json"
        with urllib.request.urlopen(at, timeout=PATIENCE_S) as page:
            found = {one.get("name"): one.get("value") for one in json.load(page)["stats"]}
        return int(found.get("cluster.fastqps.membership_healthy", 0))


class EnvoyHttp(Envoy):
    example = "envoy-http.yaml"


def socket_address(address: str) -> dict[str, object]:
    host, port = address.rsplit(":", 1)
    return {"socket_address": {"address": host, "port_value": int(port)}}

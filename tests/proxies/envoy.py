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
WEIGHTED = {"blackout_period": "0.1s", "weight_update_period": "0.2s", "weight_expiration_period": "10s"}
LB = ("least_request", "round_robin", "client_side_weighted_round_robin")


class Envoy(Proxy):
    """``lb``: the balancing of its cluster, one of LB. ``weighted``: more fields of the weighted policy."""

    program = "envoy"
    example: ClassVar[str] = "envoy.yaml"

    def __init__(
        self,
        backends: Sequence[str],
        *,
        lb: str = "least_request",
        admins: Sequence[str] = (),
        tls: Certificates | None = None,
        weighted: dict[str, object] | None = None,
    ) -> None:
        assert lb in LB, lb
        self._lb, self._weighted = lb, weighted or {}
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
        if self._lb == "round_robin":
            cluster["lb_policy"] = "ROUND_ROBIN"
        elif self._lb == "client_side_weighted_round_robin":
            del cluster["lb_policy"]
            cluster["load_balancing_policy"] = {"policies": [{"typed_extension_config": self._weighted_policy()}]}
        if self.tls:
            cluster["transport_socket"] = {"name": "envoy.transport_sockets.tls", "typed_config": self._tls_context()}
        config["admin"] = {"address": socket_address(f"127.0.0.1:{self.admin_port}")}
        return json.dumps(config, indent=1)

    def _weighted_policy(self) -> dict[str, object]:
        kind = f"{POLICIES}.client_side_weighted_round_robin.v3.ClientSideWeightedRoundRobin"
        return {
            "name": "envoy.load_balancing_policies.client_side_weighted_round_robin",
            "typed_config": {"@type": kind, **WEIGHTED, **self._weighted},
        }

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
        return int(self.statistics().get("cluster.fastqps.membership_healthy", 0))

    def statistics(self) -> dict[str, float]:
        """Its own counters and gauges."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.admin_port}/stats?format=json", timeout=PATIENCE_S
        ) as page:
            found = json.loads(page.read())["stats"]
        return {one["name"]: one["value"] for one in found if "name" in one}


class EnvoyHttp(Envoy):
    example = "envoy-http.yaml"


def socket_address(address: str) -> dict[str, object]:
    host, port = address.rsplit(":", 1)
    return {"socket_address": {"address": host, "port_value": int(port)}}

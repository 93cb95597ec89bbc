"""nginx, from examples/proxies/nginx.conf; before HTTP ports, from nginx-http.conf."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

from proxies.proxy import EXAMPLES, Proxy, replaced

TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


class Nginx(Proxy):
    program = "nginx"
    example: ClassVar[str] = "nginx.conf"
    listens: ClassVar[str] = "0.0.0.0:50050"

    def configuration(self) -> str:
        text = (EXAMPLES / self.example).read_text()
        text = replaced(text, "worker_processes auto;", "daemon off; master_process off; worker_processes 1;")
        text = replaced(text, "pid /run/nginx.pid;", f"pid {self.folder}/pid;")
        text = replaced(text, f"listen {self.listens}", f"listen {self.address}")
        text, count = re.subn(r"^    server 127\S+ .*\n", "", text, flags=re.MULTILINE)
        assert count == 2, "the example has two servers"
        servers = "".join(f"    server {backend} max_fails=1 fail_timeout=1s;\n" for backend in self.backends)
        text = replaced(text, "    least_conn;\n", f"    least_conn;\n{servers}")
        if self.tls:
            text = replaced(text, "grpc_pass grpc://fastqps;", f"grpc_pass grpcs://fastqps;\n{self._secure()}")
        paths = "".join(f"  {name}_temp_path {self.folder}/{name};\n" for name in TEMPORARY)
        return replaced(text, "  access_log off;\n", f"  access_log off;\n{paths}")

    def _secure(self) -> str:
        assert self.tls
        lines = {"trusted_certificate": self.tls.ca, "verify": "on", "name": "localhost"}
        if self.tls.certificate:
            lines |= {"certificate": self.tls.certificate, "certificate_key": self.tls.key}
        return "".join(f"      grpc_ssl_{name} {value};\n" for name, value in lines.items())

    def arguments(self, config: Path) -> list[str]:
        return ["-p", str(self.folder), "-c", str(config)]


class NginxHttp(Nginx):
    example = "nginx-http.conf"
    listens = "0.0.0.0:8080"

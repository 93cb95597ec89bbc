"""HAProxy, from examples/proxies/haproxy.cfg."""

from __future__ import annotations

import csv
import re
import socket
from pathlib import Path

from proxies.proxy import EXAMPLES, Proxy, replaced


class HAProxy(Proxy):
    """Without ``admins`` it does not look whether its backends are ready."""

    program = "haproxy"

    def configuration(self) -> str:
        text = (EXAMPLES / "haproxy.cfg").read_text()
        text = replaced(text, "bind 0.0.0.0:50050", f"bind {self.address}")
        text, count = re.subn(r"^  server \w+ .*\n", "", text, flags=re.MULTILINE)
        assert count == 2, "the example has two servers"
        if not self.admins:
            text = replaced(text, " check inter 500ms", " inter 500ms")
        text = replaced(text, "global\n  maxconn", f"global\n  stats socket {self.folder}/stats\n  maxconn")
        if self.tls:
            pair = f" crt {self._pair()}" if self.tls.certificate else ""
            secure = f"ssl verify required ca-file {self.tls.ca}{pair} sni str(localhost) alpn h2 no-check-ssl "
            text = replaced(text, "default-server proto h2", f"default-server {secure}proto h2")
        return text + "".join(self._server(i) for i in range(len(self.backends)))

    def _server(self, i: int) -> str:
        check = f" check-proto h1 addr {self.admins[i].replace(':', ' port ')}" if self.admins else ""
        return f"  server s{i} {self.backends[i]}{check}\n"

    def _pair(self) -> Path:
        """HAProxy wants the certificate and its key in one file."""
        assert self.tls and self.tls.certificate and self.tls.key
        pair = self.folder / "pair.pem"
        pair.write_text(self.tls.certificate.read_text() + self.tls.key.read_text())
        return pair

    def arguments(self, config: Path) -> list[str]:
        return ["-db", "-f", str(config)]

    def healthy(self) -> int:
        with socket.socket(socket.AF_UNIX) as stats:
            stats.connect(f"{self.folder}/stats")
            stats.sendall(b"show stat\n")
            text = b"".join(iter(lambda: stats.recv(1 << 16), b"")).decode()
        rows = [row for row in csv.DictReader(text.splitlines()) if row["# pxname"] == "fastqps"]
        return sum(row["status"] in ("UP", "no check") for row in rows if row["svname"] != "BACKEND")

"""A server that speaks as much of the Hugging Face hub's API as a download needs, and fails where a test says so."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import _http

from fastqps.models.hub import patience, snapshot

_LARGE = (".safetensors", ".bin", ".onnx")  # files that the hub keeps outside of git
SIGNATURE = "?Signature=secret"  # opens such a file to whoever has it


@dataclass
class Repository:
    """Files by commit; the branches' commits. ``token``: without it the repository is ``gated``, or not to be seen."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    token: str = ""
    gated: bool = False

    def commit(self, files: dict[str, bytes], branch: str = "main") -> str:
        """Adds a commit, which the branch is now."""
        content = repr(sorted((name, hashlib.sha256(data).hexdigest()) for name, data in files.items()))
        commit = hashlib.sha1(content.encode()).hexdigest()
        self.commits[commit], self.branches[branch] = files, commit
        return commit


@contextmanager
def hub_of_this_process(patch: pytest.MonkeyPatch, folder: Path) -> Iterator[FakeHub]:
    """A hub that this process downloads from, into a cache in the folder."""
    found = FakeHub()
    patch.setattr(constants, "ENDPOINT", found.url)
    patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", found.url + "/{repo_id}/resolve/{revision}/{filename}")
    patch.setattr(constants, "HF_HUB_CACHE", str(folder / "cache"))
    patch.setattr(constants, "HF_TOKEN_PATH", str(folder / "token"))
    patch.setattr(_http, "_HUB_ORIGINS", frozenset({_http._url_origin(found.url)}), raising=False)
    patch.setattr(patience, "WAIT_S", 0.01)
    patch.setattr(snapshot, "_fetched", {})
    patch.setenv("NO_PROXY", "127.0.0.1")
    patch.delenv("HF_TOKEN", raising=False)
    try:
        yield found
    finally:
        found.close()


def folder_files(path: Path) -> dict[str, bytes]:
    """A folder's files as those of a commit."""
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


class FakeHub:
    """``faults``: by what stands in a request's line, how the next such requests fail (a status such as
    ``503``, ``cut``, ``wrong``). ``requests``: the lines of all, of downloads with their range."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.repositories: dict[str, Repository] = {}
        self.faults: dict[str, list[str]] = {}
        self.requests: list[str] = []
        self._lock = threading.Lock()
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        # Large files come from another origin, as the hub's do: who follows must not send the token there.
        self._servers = [ThreadingHTTPServer((host, 0), Handler) for _ in range(2)]
        for server in self._servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self.url, self.content_url = (f"http://{host}:{server.server_address[1]}" for server in self._servers)

    def repository(self, name: str, path: Path | None = None, **more: Any) -> Repository:
        """A new repository, with the files of a folder as its main branch."""
        found = self.repositories[name] = Repository(**more)
        if path:
            found.commit(folder_files(path))
        return found

    def fault(self, line: str) -> str:
        """How this request fails; "" if it does not."""
        with self._lock:
            self.requests.append(line)
            return next((kinds.pop(0) for part, kinds in self.faults.items() if part in line and kinds), "")

    def downloads(self) -> Counter[str]:
        """How often each file's content was asked for."""
        found = (re.search(r"GET .*/(?:content|resolve)/[^/]+/(\S+)", line) for line in self.requests)
        return Counter(match[1] for match in found if match)

    def close(self) -> None:
        """Ends it."""
        for server in self._servers:
            server.shutdown()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: FakeHub

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""

    def do_HEAD(self) -> None:
        """Of a file alone."""
        self._serve()

    def do_GET(self) -> None:
        """Of everything."""
        self._serve()

    def _serve(self) -> None:
        path = unquote(urlsplit(self.path).path)
        ranged = self.headers.get("Range", "")
        fault = self.hub.fault(f"{self.command} {path} {ranged}".strip())
        if fault.isdecimal():
            self._answer(int(fault), headers={"Retry-After": "1"} if fault == "429" else {})
        elif match := re.fullmatch(r"/api/models/(.+?)(?:/revision/(.+))?", path):
            self._known(match[1], lambda repository: self._listing(match[1], repository, match[2] or "main"))
        elif match := re.fullmatch(r"/(.+?)/resolve/([0-9a-f]{40})/(.+)", path):
            self._known(match[1], lambda repository: self._resolve(repository, match[2], match[3], fault))
        elif match := re.fullmatch(r"/content/([0-9a-f]{40})/(.+)", path):
            commits = [commits for each in self.hub.repositories.values() for commits in each.commits.items()]
            if self.headers.get("authorization"):
                self._answer(400)  # a token that has left the hub
            else:
                self._content(dict(commits)[match[1]][match[2]], fault)
        else:
            self._answer(404)

    def _known(self, name: str, answer: Callable[[Repository], None]) -> None:
        repository = self.hub.repositories.get(name)
        if repository and repository.token in ("", self.headers.get("authorization", "").removeprefix("Bearer ")):
            answer(repository)
        elif repository and repository.gated:
            self._answer(401, headers={"X-Error-Code": "GatedRepo", "X-Error-Message": "gated"})
        else:
            self._answer(401, headers={"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})

    def _listing(self, name: str, repository: Repository, revision: str) -> None:
        commit = repository.branches.get(revision, revision)
        if commit not in repository.commits:
            self._answer(404, headers={"X-Error-Code": "RevisionNotFound", "X-Error-Message": "Invalid rev id"})
            return
        siblings = [_sibling(file, data) for file, data in repository.commits[commit].items()]
        self._answer(200, json.dumps({"id": name, "sha": commit, "siblings": siblings}).encode())

    def _resolve(self, repository: Repository, commit: str, file: str, fault: str) -> None:
        data = repository.commits.get(commit, {}).get(file)
        if data is None:
            self._answer(404, headers={"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
            return
        if file.endswith(_LARGE):
            place = f"{self.hub.content_url}/content/{commit}/{file}{SIGNATURE}"
            headers = {"X-Repo-Commit": commit, "Location": place}
            headers |= {"X-Linked-Etag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Linked-Size": str(len(data))}
            self._answer(302, headers=headers)
        else:
            self._content(data, fault, {"X-Repo-Commit": commit})

    def _content(self, data: bytes, fault: str, more: dict[str, str] | None = None) -> None:
        etag = f'"{_blob(data)}"'
        if fault == "wrong":
            data = bytes(len(data))
        start = int(match[1]) if (match := re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))) else 0
        headers = {"ETag": etag, **(more or {})}
        if start:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self._answer(206 if start else 200, data[start:], headers, cut=fault == "cut")

    def _answer(
        self, status: int, body: bytes = b"", headers: dict[str, str] | None = None, *, cut: bool = False
    ) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.wfile.flush()
            self.close_connection = True
            self.connection.close()


def _blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _sibling(file: str, data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"rfilename": file, "size": len(data), "blobId": _blob(data)}
    if file.endswith(_LARGE):
        found["lfs"] = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
    return found

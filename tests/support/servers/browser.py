"""A real headless browser: Debian's Chromium, told what to do over WebDriver by plain HTTP."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from ports import free_port
from serving import PATIENCE_S

PROGRAM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
MISSING = "" if PROGRAM and DRIVER else "needs Debian's chromium and chromium-driver"
ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip


class Browser:
    """One window, from ``with`` on."""

    def __init__(self, width: int = 1280, height: int = 1400, dark: bool = False) -> None:
        self._arguments = [*ARGUMENTS, f"--window-size={width},{height}", *(["--force-dark-mode"] if dark else [])]

    def __enter__(self) -> Browser:
        assert DRIVER, MISSING
        port = free_port()
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._driver = subprocess.Popen(
            [DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self._base = f"http://127.0.0.1:{port}"
        self._wait_for_driver()
        options = {"binary": PROGRAM, "args": [*self._arguments, f"--user-data-dir={self._profile.name}"]}
        wanted = {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}}
        session = self._call("POST", "/session", {"capabilities": wanted})
        self._base += f"/session/{session['sessionId']}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._call("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(PATIENCE_S)
            self._profile.cleanup()

    def open(self, url: str) -> None:
        self._call("POST", "/url", {"url": url})

    def run(self, script: str) -> Any:
        """What a function body in the page returns."""
        return self._call("POST", "/execute/sync", {"script": script, "args": []})

    def text(self, selector: str) -> str:
        """What a reader sees of the first element."""
        return str(self.run(f"return document.querySelector({json.dumps(selector)}).innerText"))

    def until(self, script: str) -> Any:
        """Waits until a function body in the page returns something true; that."""
        end = time.monotonic() + PATIENCE_S
        while not (found := self.run(script)):
            assert time.monotonic() < end, f"not within {PATIENCE_S} s: {script}\n{self.text('body')}"
            time.sleep(0.05)
        return found

    def complaints(self) -> list[str]:
        """What the console says since the last call, warnings and errors."""
        lines = self._call("POST", "/se/log", {"type": "browser"})
        return [line["message"] for line in lines if line["level"] in ("SEVERE", "WARNING")]

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def _wait_for_driver(self) -> None:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._call("GET", "/status")
            except (OSError, urllib.error.URLError):
                assert time.monotonic() < end, "chromedriver does not answer"
                time.sleep(0.05)
            else:
                return

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = json.dumps(body).encode() if method == "POST" else None
        request = urllib.request.Request(self._base + path, data, {"content-type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.read().decode()[:500]}") from None

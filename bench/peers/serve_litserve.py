"""LitServe answers each text with the same 384 floats as JSON, at ``/predict``: ``serve_litserve PORT``."""

import random
import sys
from typing import Any

import litserve
from fastapi import Request

EMBEDDING = [random.Random(1).gauss(0, 0.05) for _ in range(384)]


class Embedder(litserve.LitAPI):  # type: ignore[misc]
    """Computes nothing."""

    def setup(self, device: str) -> None:
        del device

    def decode_request(self, request: Request) -> str:  # LitServe reads this annotation: the body is JSON
        body: Any = request
        return str(body["input"])

    def predict(self, text: str) -> list[float]:
        del text
        return EMBEDDING

    def encode_response(self, output: list[float]) -> dict[str, list[float]]:
        return {"embedding": output}


if __name__ == "__main__":
    # Without batches: those would spin while idle, or wait, and the model takes no time.
    server = litserve.LitServer(Embedder(), accelerator="cpu", fast_queue=True)
    server.run(host="127.0.0.1", port=int(sys.argv[1]), log_level="warning", generate_client_file=False)

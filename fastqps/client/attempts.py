"""The attempts of one call: which refusals are tried again, and after how long. Shared by both clients."""

import random
import time
from collections.abc import Sequence

from .. import errors
from ..api.prediction import Prediction, PredictionError


class Attempts:
    """Counts the attempts of one call, and keeps them within its time.

    Only a refusal that carries the server's hint is tried again: the server has not run what it refused so. The wait
    is at least the hint. It doubles with each attempt and varies at random, so that refused calls come back spread out.
    """

    def __init__(self, retries: int, timeout_s: float) -> None:
        """retries: attempts after the first one. timeout_s: seconds for all of them together."""
        self._left = retries
        self._factor = 1.0
        self._end_s = time.monotonic() + timeout_s

    def left_s(self) -> float:
        """Seconds that are left of the call's time: the timeout of the next attempt."""
        return max(0.0, self._end_s - time.monotonic())

    def wait_s(self, error: errors.CallError) -> float:
        """Seconds to wait before the next attempt. Raises `error` if there is to be none: it has no hint, all attempts
        are used, or the call's time would be over."""
        wait_s = self._next_s(error.retry_after_ms)
        if wait_s is None:
            raise error
        return wait_s

    def batch_wait_s(self, results: Sequence[Prediction | PredictionError]) -> tuple[list[int], float]:
        """The places of the items to ask for again and the seconds to wait. No places: there is no other attempt."""
        hints = {
            place: result.error.retry_after_ms
            for place, result in enumerate(results)
            if isinstance(result, PredictionError) and result.error.retry_after_ms
        }
        wait_s = self._next_s(max(hints.values(), default=0))
        return ([], 0.0) if wait_s is None else (list(hints), wait_s)

    def _next_s(self, hint_ms: int) -> float | None:
        wait_s = hint_ms / 1000 * self._factor * random.uniform(1, 1.5)
        if not hint_ms or not self._left or wait_s >= self.left_s():
            return None
        self._left -= 1
        self._factor *= 2
        return wait_s

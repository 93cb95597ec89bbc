"""The state of one PredictStream call. Shared by both clients."""

import time

from .. import errors
from ..api.prediction import Prediction, PredictionError, read_prediction
from ..api.request import Item, Requests
from ..v1 import predict_pb2 as pb

# A server ends an item itself when its time has passed. A client gives up a server that is silent for longer by this.
SILENCE_S = 1.0
# A program that stood still has answers that it has not read: it looks a second time before it gives up.
SECOND_LOOK_S = 0.1
LOOK_S_MAX = 60.0


class Stream:
    """The items of one PredictStream call: numbers them as they are sent, and matches answers by these numbers.

    One thread or task sends, another reads, and a third calls `look_in_s()`.
    """

    def __init__(self, timeout_s: float) -> None:
        """timeout_s: seconds for each item that has no time of its own."""
        self._longest_s = timeout_s
        self._sent = 0
        self._open: set[int] = set()  # sent and not answered
        self._open_since_s = 0.0  # since when there have been such items
        self._reading_since_s: float | None = None  # None: the caller is busy with an answer
        self._errors: dict[int, errors.CallError] = {}  # of open items that could not be sent
        self._failure: BaseException | None = None  # what the items raised
        self._finished = False  # all items were sent
        self._overdue = False  # the last look found silence
        self.silent = False  # the server was given up

    def send(self, requests: Requests, item: Item) -> pb.PredictRequest:
        """The item's message, numbered."""
        message, error = requests.asked(item, self._sent)
        if error:
            self._errors[self._sent] = error
        if not self._open:
            self._open_since_s = time.monotonic()
        self._longest_s = max(self._longest_s, message.timeout_us / 1e6)
        message.request_id = self._sent
        self._open.add(self._sent)
        self._sent += 1
        return message

    def finish(self, failure: BaseException | None = None) -> None:
        """Notes that no more items follow, or why there are none."""
        self._failure = failure
        self._finished = failure is None

    def await_answer(self) -> None:
        """Called before the reader waits for an answer."""
        self._reading_since_s = time.monotonic()

    def take(self, data: bytes) -> Prediction | PredictionError:
        """One answer. Raises DecodeError, and Internal if it makes no sense or answers nothing that is open."""
        self._reading_since_s = None
        result = read_prediction(data)
        if result.request_id not in self._open:
            raise errors.Internal(f"the server answered request_id {result.request_id}, which is not open")
        self._open.remove(result.request_id)
        error = self._errors.pop(result.request_id, None)
        return PredictionError(result.request_id, error) if error else result

    def look_in_s(self) -> float:
        """Seconds until the next call of this method; 0 if the server has been silent for too long."""
        left_s, reading_since_s = self._silence_s(), self._reading_since_s
        if reading_since_s is not None and self._open:
            left_s += max(reading_since_s, self._open_since_s) - time.monotonic()
        overdue, self._overdue = self._overdue, left_s <= 0
        self.silent = overdue and self._overdue
        if self._overdue:
            return 0.0 if self.silent else SECOND_LOOK_S
        return min(left_s, LOOK_S_MAX)

    def silence(self) -> errors.DeadlineExceeded:
        message = f"the server has answered nothing for {self._silence_s():.3g} s, with {len(self._open)} items open"
        return errors.DeadlineExceeded(message)

    def _silence_s(self) -> float:
        return self._longest_s + SILENCE_S

    def check_end(self) -> None:
        """Called after the last answer: raises what the items raised, or Internal if an answer is missing."""
        if self._failure is not None:
            raise self._failure
        if not self._finished or self._open:
            answered = self._sent - len(self._open)
            raise errors.Internal(f"the server ended the stream after {answered} of {self._sent} answers")

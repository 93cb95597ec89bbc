"""A conversation as an item. Shared by both clients and the Engine."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..v1 import predict_pb2 as pb


@dataclass(frozen=True)
class Chat:
    """A conversation, for models with a chat template: an item like a text.

    messages: objects with `role` (system, user or assistant) and `content`, a text. continue_final_message: the answer
    goes on where the last message ends. variables: what the template can look at beside the messages, such as
    {"enable_thinking": False}.
    """

    messages: Sequence[Mapping[str, str]]
    continue_final_message: bool = False
    variables: Mapping[str, Any] = field(default_factory=dict)

    def pairs(self) -> list[tuple[str, str]]:
        """(role, content) of each message. Raises TypeError for what is no message."""
        if isinstance(self.messages, str | Mapping):
            raise TypeError("messages: a list of objects with a role and a content")
        for message in self.messages:
            if not isinstance(message, Mapping) or not all(
                isinstance(message.get(k), str) for k in ("role", "content")
            ):
                raise TypeError(f"messages: {message!r} is no object with a role and a content, which are texts")
        return [(message["role"], message["content"]) for message in self.messages]

    def set_in(self, message: pb.PredictRequest) -> None:
        """Makes it the input of a request. Raises TypeError or ValueError where none can hold it."""
        chat = message.chat
        chat.SetInParent()
        for role, content in self.pairs():
            chat.messages.add(role=role, content=content)
        chat.continue_final_message = self.continue_final_message
        chat.variables = json.dumps(dict(self.variables)) if self.variables else ""

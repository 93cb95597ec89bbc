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
            raise TypeError("messages: must be a list of objects with a role and a content")
        for i, message in enumerate(self.messages):
            if not isinstance(message, Mapping):
                raise TypeError(f"messages[{i}]: must be an object with a role and a content, not {_kind(message)}")
            for name in ("role", "content"):
                if not isinstance(message.get(name), str):
                    raise TypeError(f"messages[{i}].{name}: must be a str, not {_kind(message.get(name))}")
        return [(message["role"], message["content"]) for message in self.messages]

    def set_in(self, message: pb.PredictRequest) -> None:
        """Makes it the input of a request. Raises TypeError or ValueError where none can hold it."""
        chat = message.chat
        chat.SetInParent()
        for role, content in self.pairs():
            chat.messages.add(role=role, content=content)
        chat.continue_final_message = self.continue_final_message
        chat.variables = json.dumps(dict(self.variables)) if self.variables else ""


def _kind(value: object) -> str:
    """Its type: a content can be long, and is nothing for a log."""
    return type(value).__name__

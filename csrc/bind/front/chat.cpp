// Conversations in bodies of /tokenize, which Python answers: read as those of chats are.
#include "protocols/openai/chat.h"

#include <pybind11/stl.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind/bind.h"
#include "contract/request_view.h"
#include "service/formats/protocol.h"

namespace fastqps::bind {
namespace {

namespace py = pybind11;

using Mode = py::typing::Literal<"'generate'", "'closed'", "'continue'">;
// The messages, each a role and a content; how the conversation ends; the variables of the template as JSON.
using Chat = std::tuple<std::vector<std::pair<std::string, std::string>>, Mode, std::string>;

void raise(std::string_view field, const char* reason) {
  PyErr_SetObject(PyExc_ValueError, py::make_tuple(field, reason).ptr());
  throw py::error_already_set();
}

Chat read_chat(const py::bytes& body) {
  protocols::TokenizedChatReader reader;
  ReasonText reason;
  RequestView view;
  const std::string_view bytes = body;
  FieldError error = reader.read({reinterpret_cast<const u8*>(bytes.data()), bytes.size()}, {}, reason);
  if (!error) error = reader.item(0, view);
  if (error) raise(error.field ? error.field : "", error.reason);
  if (const FieldError limit = check_request(view, reason))
    raise(service::kCompletionsFields.of(limit.field), limit.reason);
  std::vector<ChatMessage> messages;
  chat_messages(view, messages);
  std::vector<std::pair<std::string, std::string>> pairs;
  for (const ChatMessage& each : messages) pairs.emplace_back(kChatRoles[u8(each.role)], each.content);
  return {std::move(pairs), one_of<Mode>(kChatModes[u8(view.chat.mode)]), std::string(view.chat.variables)};
}

}  // namespace

void register_chat(py::module_& m) {
  m.def("read_chat", &read_chat, py::arg("body"),
        "The messages (role and content), the mode and the variables (JSON, or empty) of a body of /tokenize. "
        "ValueError(field, reason): as /v1/chat/completions refuses it.");
}

}  // namespace fastqps::bind

#include "protocols/openai/chat.h"

#include "transport/http/json_writer.h"

namespace fastqps::protocols {

namespace {

constexpr const char* kTextsAlone = "a content can only be text: images, audio and files are not supported";
constexpr const char* kNoTools = "tools and their results are not supported";
constexpr const char* kNoCalls = "tools are not supported: response_format can give the answer a JSON schema";

bool is_empty(const JsonValue& value) {
  JsonArray list;
  JsonObject object;
  return value.is_null() || (!value.get(list) && !list.size()) || (!value.get(object) && !object.size());
}

// As OpenAI's API: no limit but the model's.
const JsonApi kChatApi = [] {
  JsonApi api{.unknown = JsonApi::Unknown::kRefused, .named = JsonApi::Named::kAll};
  RequestView& base = api.defaults.base;
  base.has_generate = true;
  base.generate.lowers_max_tokens = true;
  base.generate.temperature = 1;
  return api;
}();

}  // namespace

void ChatMessages::clear() {
  messages_.clear();
  joined_.clear();
}

FieldError ChatMessages::read(const GivenField& field) {
  clear();
  JsonArray all;
  if (field.value.get(all)) return {field.name, "must be an array of messages"};
  for (const JsonValue& value : all) {
    if (messages_.size() == kChatMessagesMax)
      return {field.name, field.reason.print("more than %u messages, which is the most", kChatMessagesMax)};
    JsonObject given;
    if (value.get(given)) return {field.name, "a message must be an object with a role and a content"};
    if (const FieldError error = read_message(field, given, messages_.emplace_back())) return error;
  }
  return {};
}

FieldError ChatMessages::read_message(const GivenField& field, const JsonObject& given, ChatMessage& message) {
  bool has_content = false;
  for (const auto [name, value] : given) {
    std::string_view text;
    JsonArray parts;
    if (name == "role") {
      if (value.get(text)) return {field.name, "the role of a message must be a string"};
      if (text == "tool" || text == "function") return {field.name, kNoTools};
      message.role = chat_role(text);
      if (message.role == ChatRole::kNone)
        return {field.name, field.reason.print("the role '%.*s' is none of system, developer, user and assistant",
                                               shown(text), text.data())};
    } else if (name == "content") {
      has_content = !value.is_null();
      if (!has_content || !value.get(message.content)) continue;
      if (value.get(parts)) return {field.name, "the content of a message must be a string or an array of text parts"};
      if (const FieldError error = read_parts(field, parts, message)) return error;
    } else if ((name == "tool_calls" || name == "function_call" || name == "tool_call_id") && !is_empty(value)) {
      return {field.name, kNoTools};
    } else if (name == "audio" && !is_empty(value)) {
      return {field.name, kTextsAlone};
    }
  }
  if (message.role == ChatRole::kNone) return {field.name, "a message has no role"};
  // As OpenAI's and vLLM's APIs: an assistant may have said nothing, as one that has only called tools.
  if (has_content || message.role == ChatRole::kAssistant) return {};
  return {field.name, "a message has no content, which only one of the assistant may lack"};
}

// Their texts, with a line break between them, as vLLM has it.
FieldError ChatMessages::read_parts(const GivenField& field, const JsonArray& parts, ChatMessage& message) {
  std::string& joined = joined_.emplace_back();
  bool first = true;
  for (const JsonValue& part : parts) {
    std::string_view type, text;
    if (part.is_string()) {
      text = std::string_view(part);
    } else if (part["type"].get(type) || type != "text" || part["text"].get(text)) {
      return {field.name, kTextsAlone};
    }
    if (!first) joined += '\n';
    first = false;
    joined += text;
  }
  message.content = joined;
  return {};
}

ChatReader::ChatReader(u32 choices_max) : CompletionsReader(kChatApi, choices_max) {}

void ChatReader::prompt(u32, RequestView& view) const {
  view.input = Input::kChat;
  view.chat.messages = messages_.messages();
  view.chat.count = u32(view.chat.messages.size());
  view.chat.mode = continues_                          ? ChatMode::kContinue
                   : generation_prompt_.value_or(true) ? ChatMode::kGenerate
                                                       : ChatMode::kClosed;
  view.chat.variables = variables_;
}

FieldRows ChatReader::fields() const {
  static constexpr FieldRow kFields[] = {
      {"messages", into<&ChatReader::messages_>, kInput},
      {"prompt", refused<"is of /v1/completions; a chat has messages">},
      {"max_completion_tokens", renamed<"max_tokens">},
      {"add_generation_prompt", into<&ChatReader::generation_prompt_>},
      {"continue_final_message", into<&ChatReader::continues_>},
      {"chat_template_kwargs", by<&ChatReader::read_variables>},
      {"enable_thinking", by<&ChatReader::read_variable>},
      {"reasoning_effort", by<&ChatReader::read_variable>},
      {"chat_template", refused<"the model's own chat template is used; it cannot be sent">},
      {"documents", only_empty<JsonArray>},
      {"logprobs", by<&ChatReader::read_logprobs>},
      {"top_logprobs", by<&ChatReader::read_top_logprobs>},
      {"tools", by<&ChatReader::read_tools>},
      {"tool_choice", by<&ChatReader::read_tool_choice>},
      {"functions", by<&ChatReader::read_tools>},
      {"function_call", by<&ChatReader::read_tool_choice>},
      {"parallel_tool_calls", unused<bool>},
      {"modalities", by<&ChatReader::read_modalities>},
      {"audio", refused<"audio is not supported">},
  };
  return kFields;
}

void ChatReader::clear() {
  CompletionsReader::clear();
  messages_.clear();
  continues_ = false;
  generation_prompt_.reset();
  variables_.clear();
}

FieldError ChatReader::check(const transport::CallInfo&, ReasonText& reason) {
  if (messages_.messages().empty()) return {"messages", "must be given, with one message at least"};
  if (continues_ && generation_prompt_.value_or(false))
    return {"continue_final_message", "cannot be set together with add_generation_prompt"};
  if (options_.base.generate.top_logprobs && !options_.base.generate.logprobs)
    return {"top_logprobs", "needs logprobs to be true"};
  if (!variables_.empty()) variables_ = '{' + variables_ + '}';
  return finish(CompletionsHead::Form::kChat, reason);
}

FieldError ChatReader::read_logprobs(const GivenField& field) {
  return read_value(field, options_.base.generate.logprobs);
}

FieldError ChatReader::read_top_logprobs(const GivenField& field) {
  return {field.name, service::to_u32(field.option(), &options_.base.generate.top_logprobs)};
}

FieldError ChatReader::read_variables(const GivenField& field) {
  JsonObject object;
  if (field.value.get(object)) return {field.name, "must be an object"};
  const std::string text = simdjson::minify(object);
  if (object.size()) variables_.append(variables_.empty() ? "" : ",").append(text, 1, text.size() - 2);
  return {};
}

FieldError ChatReader::read_variable(const GivenField& field) {
  variables_.append(variables_.empty() ? "\"" : ",\"").append(field.name).append("\":");
  variables_.append(std::string(simdjson::minify(field.value)));
  return {};
}

FieldError ChatReader::read_modalities(const GivenField& field) {
  JsonArray all;
  if (field.value.get(all)) return {field.name, "must be an array"};
  for (const JsonValue& each : all)
    if (!each.is_string() || std::string_view(each) != "text") return {field.name, "can only be text"};
  return {};
}

FieldError ChatReader::read_tools(const GivenField& field) {
  return is_empty(field.value) ? FieldError{} : FieldError{field.name, kNoCalls};
}

FieldError ChatReader::read_tool_choice(const GivenField& field) {
  return find_word(field.text(), {"none", "auto"}) ? FieldError{} : FieldError{field.name, kNoCalls};
}

FieldError TokenizedChatReader::read_field(std::string_view name, const JsonValue& value, ReasonText& reason) {
  constexpr const char* kSpelled = "return_token_strs";
  if (name != kSpelled) return ChatReader::read_field(name, value, reason);
  return value.is_null() ? FieldError{} : unused<bool>(*this, {kSpelled, value, reason});
}

}  // namespace fastqps::protocols

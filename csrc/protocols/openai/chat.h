// OpenAI's chat completions, with vLLM's fields: requests. Their answers are those of completions in another form.
#pragma once
#include <deque>
#include <string>
#include <vector>

#include "protocols/openai/openai.h"

namespace fastqps::protocols {

// "messages": an array of objects with a role and a content, which is a text or a list of texts.
class ChatMessages {
 public:
  void clear();
  FieldError read(const GivenField& field);
  std::span<const ChatMessage> messages() const { return messages_; }

 private:
  FieldError read_message(const GivenField& field, const JsonObject& given, ChatMessage& message);
  FieldError read_parts(const GivenField& field, const JsonArray& parts, ChatMessage& message);

  std::vector<ChatMessage> messages_;
  std::deque<std::string> joined_;  // contents that were lists
};

// POST /v1/chat/completions.
class ChatReader : public CompletionsReader {
 public:
  explicit ChatReader(u32 choices_max);

 private:
  u32 prompts() const override { return 1; }
  void prompt(u32 index, RequestView& view) const override;
  FieldRows fields() const override;
  void clear() override;
  FieldError check(const transport::CallInfo&, ReasonText&) override;
  FieldError read_logprobs(const GivenField& field);
  FieldError read_top_logprobs(const GivenField& field);
  FieldError read_variables(const GivenField& field);
  FieldError read_variable(const GivenField& field);
  FieldError read_modalities(const GivenField& field);
  FieldError read_tools(const GivenField& field);
  FieldError read_tool_choice(const GivenField& field);

  ChatMessages messages_;
  bool continues_ = false;
  std::optional<bool> generation_prompt_;
  std::string variables_;  // members of a JSON object
};

// POST /tokenize with messages: a chat, whose other fields change nothing.
class TokenizedChatReader final : public ChatReader {
 public:
  TokenizedChatReader() : ChatReader(1) {}

 private:
  FieldError read_field(std::string_view name, const JsonValue& value, ReasonText& reason) override;
};

}  // namespace fastqps::protocols

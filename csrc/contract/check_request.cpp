// Checks the limits on a request's values that hold for every model. Each refusal names the field, the value and the
// limit.
#include <algorithm>
#include <cmath>

#include "contract/request_view.h"

namespace fastqps {
namespace {

constexpr i32 kPriorityLast = 3;

// ---- options: whether a value of each type lies in its range, or the reason why not

const char* check_value(u32 value, const Range& range, ReasonText& reason) {
  return value > range.high ? reason.print("%u, must be at most %.0f", value, range.high) : nullptr;
}
const char* check_value(i32 value, const Range& range, ReasonText& reason) {
  return value < 0 || value > range.high ? reason.print("%d, must be 0 to %.0f", value, range.high) : nullptr;
}
const char* check_value(const IdList& ids, const Range& range, ReasonText& reason) {
  return ids.count > range.high ? reason.print("%u ids, at most %.0f", ids.count, range.high) : nullptr;
}
const char* check_value(const OptionTexts& texts, const Range& range, ReasonText& reason) {
  return texts.count > range.high ? reason.print("%u strings, at most %.0f", texts.count, range.high) : nullptr;
}
const char* check_value(BiasCount biases, const Range& range, ReasonText& reason) {
  return biases.count > range.high ? reason.print("%u tokens, at most %.0f", biases.count, range.high) : nullptr;
}
const char* check_value(std::string_view text, const Range& range, ReasonText& reason) {
  return text.size() > range.high ? reason.print("%zu bytes, at most %.0f", text.size(), range.high) : nullptr;
}
const char* check_value(float value, const Range& range, ReasonText& reason) {
  const bool bounded = std::isfinite(range.high);
  if (std::isfinite(value) && (range.above_zero ? value > 0 : value >= range.low) && value <= range.high)
    return nullptr;
  if (bounded && range.above_zero) return reason.print("%g, must be above 0 and at most %g", double(value), range.high);
  if (bounded) return reason.print("%g, must be %g to %g", double(value), range.low, range.high);
  return reason.print("%g, must be a finite number%s", double(value), range.above_zero ? " above 0" : ", 0 or more");
}
// Every value of these types is in their range.
const char* check_value(u64, const Range&, ReasonText&) { return nullptr; }
const char* check_value(std::optional<bool>, const Range&, ReasonText&) { return nullptr; }

template <class Rows, class Message>
FieldError check_options(const Rows& rows, const Message& message, const Sampling& checkpoint, ReasonText& reason) {
  FieldError error;
  any_option(rows, [&](const auto& row) {
    if constexpr (requires { checkpoint.*row.member; })
      if (row.checkpoint && message.*row.member == checkpoint.*row.member) return false;
    if (const char* why = check_value(message.*row.member, row.range, reason)) error = {row.path, why};
    return bool(error);
  });
  return error;
}

FieldError check_texts(const RequestView& request, ReasonText& reason) {
  FieldError error;
  any_option(kGenerateOptions, [&](const auto& row) {
    if constexpr (std::is_same_v<typename std::decay_t<decltype(row)>::Value, OptionTexts>) {
      if (!(request.generate.*row.member).count) return false;
      std::string_view texts[kTextsMax];
      texts_of(request, row.member, texts);
      for (u32 i = 0; i < (request.generate.*row.member).count && !error; i++)
        if (texts[i].empty() || texts[i].size() > kTextBytesMax)
          error = {row.path,
                   reason.print("string %u has %zu bytes, must have 1 to %u", i, texts[i].size(), kTextBytesMax)};
    }
    return bool(error);
  });
  return error;
}

FieldError check_bias(const RequestView& request, ReasonText& reason) {
  const u32 count = request.generate.logit_bias.count;
  if (!count) return {};
  TokenBias biases[kLogitBiasMax];
  logit_bias(request, biases);
  std::sort(biases, biases + count, [](const TokenBias& a, const TokenBias& b) { return a.id < b.id; });
  for (u32 i = 0; i < count; i++) {
    const auto [id, bias] = biases[i];
    if (!(std::abs(bias) <= kBiasMost))
      return {"generate.logit_bias",
              reason.print("%g for token %u, must be %g to %g", bias, id, -kBiasMost, kBiasMost)};
    if (i && id == biases[i - 1].id) return {"generate.logit_bias", reason.print("token %u is given twice", id)};
  }
  return {};
}

FieldError check_structure(const GenerateOptions& options) {
  if (options.structure && options.choices.count)
    return {"generate.choices", "are given beside a structure; a text can have one of them"};
  const bool needs_text = options.structure > i32(Structure::kJsonObject);
  if (needs_text != options.structure_text.empty()) return {};
  return {"generate.structure_text", needs_text ? "is empty; give the schema, expression or grammar of the structure"
                                                : "is given without a structure that has a text"};
}

FieldError check_prompt(const GenerateOptions& options) {
  if (options.scores_prompt() && options.choices.count)
    return {"generate.prompt_logprobs", "is given beside choices; ask for them in another request"};
  if (options.prompt_alone() && !options.scores_prompt() && !options.echo)
    return {"generate.max_tokens", "0, must be at least 1 without prompt_logprobs"};
  return {};
}

FieldError check_chat(const RequestView& request, ReasonText& reason) {
  const u32 count = request.chat.count;
  if (!count || count > kChatMessagesMax)
    return {"chat.messages", reason.print("%u messages, must be 1 to %u", count, kChatMessagesMax)};
  std::vector<ChatMessage> messages;
  chat_messages(request, messages);
  for (u32 i = 0; i < count; i++)
    if (messages[i].role == ChatRole::kNone)
      return {"chat.messages", reason.print("the role of message %u must be system, developer, user or assistant", i)};
  return {};
}

}  // namespace

FieldError check_request(const RequestView& request, ReasonText& reason, const Sampling& checkpoint) {
  if (request.input == Input::kNone) return {"input", "no text, pair, token ids or chat are given"};
  if (request.input == Input::kChat)
    if (const FieldError error = check_chat(request, reason)) return error;
  if (request.priority < 0 || request.priority > kPriorityLast)
    return {"priority", reason.print("%d, must be 0 to %d", request.priority, kPriorityLast)};
  if (request.tenant.size() > kTenantBytesMax)
    return {"tenant", reason.print("%zu bytes, must be at most %u", request.tenant.size(), kTenantBytesMax)};
  if (request.group.size() > kGroupBytesMax)
    return {"group", reason.print("%zu bytes, must be at most %u", request.group.size(), kGroupBytesMax)};
  if (const FieldError error = check_options(kOutputOptions, request.output, checkpoint, reason)) return error;
  if (!request.has_generate) return {};
  FieldError error = check_options(kGenerateOptions, request.generate, checkpoint, reason);
  if (!error) error = check_texts(request, reason);
  if (!error && request.generate.logit_bias.count) error = check_bias(request, reason);
  if (!error) error = check_prompt(request.generate);
  return error ? error : check_structure(request.generate);
}

}  // namespace fastqps

#include <algorithm>
#include <ctime>
#include <utility>

#include "contract/utf8.h"
#include "core/clock.h"
#include "protocols/openai/openai.h"
#include "text/load/detokenizer.h"
#include "transport/http/json_writer.h"

namespace fastqps::protocols {

namespace {

using service::AnsweredCall;
using transport::JsonWriter;
using Items = std::span<const ResponseView>;

constexpr u32 kDefaultTokens = 16;  // as OpenAI's API has it
constexpr size_t kAround = 256;     // the constant parts of an answer, or of one choice
constexpr std::string_view kDone = "data: [DONE]\n\n";
constexpr std::string_view kTokenName = "token_id:", kBytesName = "bytes:";

// The answer's context: which events of a stream have the usage, a letter of IgnoredFields, then its id and its time as
// they are written.
constexpr char kNoUsage = '-', kUsageAtEnd = 'u', kUsageSoFar = 'c';  // so far: vLLM's continuous_usage_stats
constexpr size_t kUsageFlag = 0, kIgnoredLetter = 1, kIdAndTime = 2;

// A token alone, which may be a part of a character. Empty: it has no text.
std::string_view token_bytes(const text::Detokenizer* texts, u32 id) {
  if (!texts) return {};
  const std::string_view bytes = texts->bytes(id);
  return bytes.empty() ? texts->special(id) : bytes;
}

size_t choice_room(const AnsweredCall& call, const GenerationView& generation) {
  constexpr size_t kPerToken = kTokenName.size() + JsonWriter::kIntegerBytes + 4 + JsonWriter::kFloatBytes + 8;
  size_t room = kAround + JsonWriter::string_room(generation.text.size()) + generation.logprobs.size() * kPerToken;
  if (!generation.logprobs.empty())
    for (const u32 id : generation.token_ids) room += JsonWriter::string_room(token_bytes(call.texts, id).size());
  return room;
}

// As OpenAI's API names tokens: by their text, or by their bytes where those are no whole characters. One that has no
// text is named by its id.
void write_token(JsonWriter& out, const text::Detokenizer* texts, u32 id) {
  const std::string_view bytes = token_bytes(texts, id);
  if (bytes.empty()) return void(out.raw("\"").raw(kTokenName).number(u64(id)).raw("\""));
  if (text::valid_utf8(bytes)) return void(out.string(bytes));
  constexpr char kDigits[] = "0123456789abcdef";
  out.raw("\"").raw(kBytesName);
  for (const char each : bytes) {
    const char escaped[] = {'\\', '\\', 'x', kDigits[u8(each) >> 4], kDigits[u8(each) & 15]};
    out.raw({escaped, sizeof escaped});
  }
  out.raw("\"");
}

void write_logprobs(JsonWriter& out, const AnsweredCall& call, const GenerationView& generation) {
  if (generation.logprobs.empty()) {
    out.raw("null");
    return;
  }
  out.raw(R"({"tokens":[)");
  for (size_t i = 0; i < generation.token_ids.size(); i++) {
    if (i) out.raw(",");
    write_token(out, call.texts, generation.token_ids[i]);
  }
  out.raw(R"(],"token_logprobs":)").floats(generation.logprobs);
  out.raw(R"(,"top_logprobs":null,"text_offset":null})");
}

void write_choice(JsonWriter& out, const AnsweredCall& call, u64 index, const GenerationView& generation) {
  out.raw(R"({"text":)").string(generation.text).raw(R"(,"index":)").number(index).raw(R"(,"logprobs":)");
  write_logprobs(out, call, generation);
  const char* reason = generation.finish_reason == FinishReason::kStop     ? R"("stop")"
                       : generation.finish_reason == FinishReason::kLength ? R"("length")"
                                                                           : "null";
  out.raw(R"(,"finish_reason":)").raw(reason).raw("}");
}

void write_head(JsonWriter& out, const AnsweredCall& call) {
  out.raw(R"({"object":"text_completion",)").raw(call.context.substr(kIdAndTime));
  out.raw(R"(,"model":)").string(call.model()).raw(R"(,"choices":[)");
}

void write_usage(JsonWriter& out, u64 prompt, u64 completion) {
  out.raw(R"("usage":{"prompt_tokens":)").number(prompt).raw(R"(,"completion_tokens":)").number(completion);
  out.raw(R"(,"total_tokens":)").number(prompt + completion).raw("}");
}

void write_event_end(JsonWriter& out, const ChunkView& chunk, bool with_usage) {
  if (!with_usage) return void(out.raw("]}\n\n"));
  out.raw("],");
  write_usage(out, chunk.usage->input_tokens, chunk.usage->output_tokens);
  out.raw("}\n\n");
}

std::string_view last_part(std::string_view path) { return path.substr(path.rfind('.') + 1); }

// Options of OpenAI's API and of vLLM's that are allowed to have their default only, because there is no counterpart
// here.
bool is_default(std::string_view name, const JsonValue& value, bool* known) {
  *known = true;
  const OptionValue given = option_value(value);
  const auto is = [&](i64 number) {
    return given.kind == OptionValue::Kind::kInt
               ? given.integer == number
               : given.kind == OptionValue::Kind::kDouble && given.number == double(number);
  };
  const auto is_one_of = [name](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const auto is_bool = [&](bool wanted) { return given.kind == OptionValue::Kind::kBool && given.boolean == wanted; };
  if (is_one_of({"n", "best_of", "length_penalty"})) return is(1);
  if (is_one_of({"skip_special_tokens", "spaces_between_special_tokens"})) return is_bool(true);
  if (is_one_of({"echo", "use_beam_search", "early_stopping", "include_stop_str_in_output"})) return is_bool(false);
  if (name == "suffix") return given.kind == OptionValue::Kind::kString && given.text.empty();
  if (name == "logit_bias") {
    JsonObject bias;
    return !value.get(bias) && bias.size() == 0;
  }
  *known = false;
  return false;
}

}  // namespace

FieldError CompletionsReader::read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) {
  base_ = {};
  base_.has_generate = true;
  base_.generate.max_tokens = kDefaultTokens;
  base_.generate.lowers_max_tokens = true;
  base_.generate.temperature = 1;
  stream_ = usage_ = usage_so_far_ = false;
  ignored_.clear();
  prompt_.clear();
  const FieldError error = body_.each_field(
      message, reason, [&](std::string_view name, const JsonValue& value) { return read_field(name, value, reason); });
  if (error) return error;
  if (!prompt_.given()) return {"prompt", "must be given"};
  if (stream_ && prompt_.items() > 1)
    return {"prompt", reason.print("%u prompts, at most 1 with stream", prompt_.items())};
  char text[96];
  const int bytes =
      std::snprintf(text, sizeof text, R"(%c%c"id":"cmpl-%016llx%08llx","created":%lld)", usage(), ignored_.letter(),
                    (unsigned long long)now_ns(), (unsigned long long)made_++, (long long)std::time(nullptr));
  context_.assign(text, size_t(bytes));
  return {};
}

FieldError CompletionsReader::item(u32 index, RequestView& view) {
  view = base_;
  prompt_.item(index, view);
  return {};
}

FieldError CompletionsReader::read_field(std::string_view name, const JsonValue& value, ReasonText& reason) {
  if (name == "prompt") return prompt_.read(value, reason);
  if (value.is_null() || ignored_.take(name, value)) return {};
  if (name == "stream_options") return read_stream_options(value, reason);
  if (name == "logprobs") return read_logprobs(option_value(value), reason);
  if (name == "stream")
    return service::to_bool(option_value(value), &stream_) ? FieldError{"stream", "must be a bool"} : FieldError{};
  bool known;
  if (is_default(name, value, &known)) return {};
  if (known) return {name.data(), "can only have its default here"};
  return read_common_field(name, value, base_, lists_);
}

FieldError CompletionsReader::read_stream_options(const JsonValue& value, ReasonText& reason) {
  JsonObject options;
  if (value.get(options)) return {"stream_options", "must be an object"};
  for (const auto [name, option] : options) {
    bool padded;  // it only pads the events of a server that obfuscates them
    const std::pair<const char*, bool*> known[] = {{"stream_options.include_usage", &usage_},
                                                   {"stream_options.continuous_usage_stats", &usage_so_far_},
                                                   {"stream_options.include_obfuscation", &padded}};
    const auto* found = std::ranges::find_if(known, [&](const auto& each) { return name == last_part(each.first); });
    if (found == std::end(known))
      return {"stream_options", reason.print("'%.*s' is not one of them: include_usage is", shown(name), name.data())};
    if (const char* why = service::to_bool(option_value(option), found->second)) return {found->first, why};
  }
  return {};
}

// Without include_usage no event has it, as in vLLM.
char CompletionsReader::usage() const { return !usage_ ? kNoUsage : usage_so_far_ ? kUsageSoFar : kUsageAtEnd; }

// 0 asks for the chosen tokens' probabilities, 1 for the likeliest token beside it: only the former are known here.
FieldError CompletionsReader::read_logprobs(const OptionValue& value, ReasonText& reason) {
  u32 count;
  if (const char* why = service::to_u32(value, &count)) return {"logprobs", why};
  if (count > 1) return {"logprobs", reason.print("%u, at most 1: those of the chosen tokens", count)};
  base_.generate.logprobs = true;
  return {};
}

namespace {

class CompletionsWriter final : public service::AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, Items items) const override {
    size_t room = 2 * kAround + call.context.size() + JsonWriter::string_room(call.model_version.size());
    for (const ResponseView& item : items) room += choice_room(call, item.generation);
    return room;
  }

  u8* write(const AnsweredCall& call, Items items, u8* buffer) const override {
    JsonWriter out(buffer);
    u64 prompt = 0, completion = 0;
    write_head(out, call);
    for (size_t i = 0; i < items.size(); i++) {
      if (i) out.raw(",");
      write_choice(out, call, i, items[i].generation);
      if (items[i].usage) prompt += items[i].usage->input_tokens, completion += items[i].usage->output_tokens;
    }
    out.raw("],");
    write_usage(out, prompt, completion);
    return out.raw("}").end();
  }

  size_t chunk_room(const AnsweredCall& call, const ChunkView& chunk) const override {
    const size_t head = kAround + call.context.size() + JsonWriter::string_room(call.model_version.size());
    return choice_room(call, chunk.generation) + 2 * head + kAround + kDone.size();
  }

  // One event. The last one is followed by that of the usage, if asked for, and by the end of the stream.
  u8* write_chunk(const AnsweredCall& call, const ChunkView& chunk, u8* buffer) const override {
    JsonWriter out(buffer);
    out.raw("data: ");
    write_head(out, call);
    write_choice(out, call, 0, chunk.generation);
    const char usage = chunk.usage ? call.context[kUsageFlag] : kNoUsage;
    write_event_end(out, chunk, usage == kUsageSoFar);
    if (chunk.generation.finish_reason == FinishReason::kUnspecified) return out.end();
    if (usage != kNoUsage) {
      out.raw("data: ");
      write_head(out, call);
      write_event_end(out, chunk, true);
    }
    return out.raw(kDone).end();
  }
  transport::HttpReply reply(const AnsweredCall& call, Items, size_t) const override {
    return {.ignored = IgnoredFields::names(call.context[kIgnoredLetter])};
  }
  transport::HttpReply chunks_reply(const AnsweredCall& call) const override {
    return {.type = transport::ContentType::kEventStream,
            .ignored = IgnoredFields::names(call.context[kIgnoredLetter])};
  }
  const service::FieldNames* fields() const override { return &service::kCompletionsFields; }
};
const CompletionsWriter completions_writer;

}  // namespace

const service::AnswerWriter& kCompletionsWriter = completions_writer;

}  // namespace fastqps::protocols

#include <cstdio>
#include <ctime>

#include "contract/utf8.h"
#include "protocols/json/structures.h"
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

using Usage = CompletionsHead::Usage;

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
  out.raw(R"({"object":"text_completion",)").raw(behind<CompletionsHead>(call.context));
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

}  // namespace

namespace {
const JsonApi kCompletionsApi = [] {
  JsonApi api{.unknown = JsonApi::Unknown::kRefused, .named = JsonApi::Named::kAll};
  RequestView& base = api.defaults.base;
  base.has_generate = true;
  base.generate.max_tokens = kDefaultTokens;
  base.generate.lowers_max_tokens = true;
  base.generate.temperature = 1;
  return api;
}();
}  // namespace

CompletionsReader::CompletionsReader(u32 items_max) : FieldsReader(kCompletionsApi, items_max), prompt_(items_max) {}

FieldRows CompletionsReader::fields() const {
  static constexpr FieldRow kFields[] = {
      {"prompt", into<&CompletionsReader::prompt_>, kInput},
      {"logprobs", by<&CompletionsReader::read_logprobs>},
      {"echo", only<false>},
      {"suffix", only_empty<std::string_view>},
  };
  return kFields;
}

// Those of vLLM's API, too.
FieldRows CompletionsReader::api_fields() const {
  static constexpr FieldRow kFields[] = {
      {"model", base_option<&RequestView::model>},
      {"user", unused<std::string_view>},
      {"stream", into<&CompletionsReader::stream_>},
      {"stream_options", by<&CompletionsReader::read_stream_options>},
      {"n", only<1>},
      {"best_of", only<1>},
      {"presence_penalty", only<0>},
      {"frequency_penalty", only<0>},
      {"min_p", only<0>},
      {"logit_bias", only_empty<JsonObject>},
      {"length_penalty", only<1>},
      {"use_beam_search", only<false>},
      {"early_stopping", only<false>},
      {"skip_special_tokens", only<true>},
      {"spaces_between_special_tokens", only<true>},
      {"include_stop_str_in_output", only<false>},
      {"response_format", structure<read_response_format>},
      {"guided_json", structure<read_guided<Structure::kJsonSchema>>},
      {"guided_regex", structure<read_guided<Structure::kRegex>>},
      {"guided_grammar", structure<read_guided<Structure::kGrammar>>},
      {"structured_outputs", structure<read_structured_outputs>},
  };
  return kFields;
}

FieldError CompletionsReader::check(const transport::CallInfo&, ReasonText& reason) {
  if (!prompt_.given()) return {"prompt", "must be given"};
  if (stream_ && prompt_.items() > 1)
    return {"prompt", reason.print("%u prompts, at most 1 with stream", prompt_.items())};
  // Without include_usage no event has it, as in vLLM.
  const CompletionsHead head{!usage_ ? Usage::kNone : usage_so_far_ ? Usage::kSoFar : Usage::kAtEnd, ignored_.letter()};
  char text[96];
  const int bytes = std::snprintf(text, sizeof text, R"("id":"cmpl-%s","created":%lld)", next_id().text,
                                  (long long)std::time(nullptr));
  context_.assign(bytes_of(head)).append(text, size_t(bytes));
  return {};
}

FieldError CompletionsReader::read_stream_options(const GivenField& field) {
  static constexpr FieldRow kOptions[] = {
      {"stream_options.include_usage", into<&CompletionsReader::usage_>},
      {"stream_options.continuous_usage_stats", into<&CompletionsReader::usage_so_far_>},
      // It only pads the events of a server that obfuscates them.
      {"stream_options.include_obfuscation", unused<bool>},
  };
  JsonObject options;
  if (field.value.get(options)) return {field.name, "must be an object"};
  for (const auto [name, value] : options) {
    const FieldRow* row = find_part(kOptions, name);
    if (!row)
      return {field.name, field.reason.print("'%.*s' is not one of them: include_usage is", shown(name), name.data())};
    if (const FieldError error = row->read(*this, {row->name.data(), value, field.reason})) return error;
  }
  return {};
}

// 0 asks for the chosen tokens' probabilities, 1 for the likeliest token beside it: only the former are known here.
FieldError CompletionsReader::read_logprobs(const GivenField& field) {
  u32 count;
  if (const char* why = service::to_u32(field.option(), &count)) return {field.name, why};
  if (count > 1) return {field.name, field.reason.print("%u, at most 1: those of the chosen tokens", count)};
  options_.base.generate.logprobs = true;
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
    const Usage usage = chunk.usage ? head_of<CompletionsHead>(call.context).usage : Usage::kNone;
    write_event_end(out, chunk, usage == Usage::kSoFar);
    if (chunk.generation.finish_reason == FinishReason::kUnspecified) return out.end();
    if (usage != Usage::kNone) {
      out.raw("data: ");
      write_head(out, call);
      write_event_end(out, chunk, true);
    }
    return out.raw(kDone).end();
  }
  transport::HttpReply reply(const AnsweredCall& call, Items, size_t) const override {
    return {.ignored = IgnoredFields::names(head_of<CompletionsHead>(call.context).ignored)};
  }
  transport::HttpReply chunks_reply(const AnsweredCall& call) const override {
    transport::HttpReply reply = this->reply(call, {}, 0);
    reply.type = transport::ContentType::kEventStream;
    return reply;
  }
  const service::FieldNames* fields() const override { return &service::kCompletionsFields; }
};
const CompletionsWriter completions_writer;

}  // namespace

const service::AnswerWriter& kCompletionsWriter = completions_writer;

}  // namespace fastqps::protocols

#include "protocols/oip/generate.h"

#include "transport/http/json_writer.h"

namespace fastqps::protocols {

namespace {

constexpr const char* kText = "text_input";

// Parameters of Triton's backends for generation. Nothing: it is one of this server.
struct TritonParameter {
  std::string_view name, ours;  // ours: empty: every answer has it
  bool inverted = false;
};
constexpr TritonParameter kTritons[] = {{"exclude_input_in_output", "echo", true},
                                        {"return_logprobs", "logprobs"},
                                        {"return_finish_reason", {}},
                                        {"return_num_input_tokens", {}},
                                        {"return_num_output_tokens", {}}};

// And those that have no counterpart. A text of them may be empty.
constexpr std::string_view kForeign[][2] = {{"sampling_parameters", "give its members as parameters"},
                                            {"stop_words", "use stop"},
                                            {"bad_words", "use suppress_token_ids, which takes token ids"},
                                            {"return_cumulative_logprob", "add up logprob"}};

}  // namespace

FieldError GenerateReader::read_body(const JsonObject& body, const transport::CallInfo& info, ReasonText& reason) {
  request_.clear();
  const transport::HttpRequest& http = *info.http;
  request_.set_model(http.parameters[0], http.parameter_count > 1 ? http.parameters[1] : std::string_view());
  bool given = false;
  for (const auto [name, value] : body) {
    if (value.is_null()) continue;  // clients send null for what is not set
    given |= name == kText;
    if (const FieldError error = read_field(name, value, reason)) return error;
  }
  if (!given) return {kText, "must be given"};
  FieldError error = request_.finish(reason);
  if (!error && of_stream_ && request_.candidates() > 1) error = {"n", "can only be 1 in a stream"};
  if (error) return error;
  InferContext{.outputs = request_.outputs(), .choices = request_.choices(), .id = request_.id()}.write(context_);
  return {};
}

// As in Triton, a parameter may stand beside the text, too.
FieldError GenerateReader::read_field(std::string_view name, const JsonValue& value, ReasonText& reason) {
  if (name == kText) return read_text(value, reason);
  if (name == "id") {
    if (!value.is_string()) return {"id", "must be a string"};
    request_.set_id(std::string_view(value));
    return {};
  }
  if (name == "parameters") {
    JsonObject parameters;
    if (value.get(parameters)) return {"parameters", "must be an object"};
    for (const auto [each, parameter] : parameters) {
      if (parameter.is_null()) continue;
      if (each == kText || each == "parameters") return {"parameters", "a text stands beside the parameters"};
      if (const FieldError error = read_field(each, parameter, reason)) return error;
    }
    return {};
  }
  bool flag = false;
  if (name == "stream") {
    if (value.get(flag)) return {"stream", "must be a bool"};
    if (flag != of_stream_) return {"stream", "is decided by the route: generate_stream streams, generate does not"};
    return {};
  }
  for (const TritonParameter& each : kTritons) {
    if (each.name != name) continue;
    if (value.get(flag)) return {each.name.data(), "must be a bool"};
    if (each.ours.empty()) return {};
    return request_.set(each.ours, {.kind = OptionValue::Kind::kBool, .boolean = flag != each.inverted}, reason);
  }
  const OptionValue option = option_value(value, request_.lists());
  const bool is_nothing = option.kind == OptionValue::Kind::kString
                              ? option.text.empty()
                              : option.kind == OptionValue::Kind::kBool && !option.boolean;
  for (const auto& [foreign, instead] : kForeign)
    if (foreign == name) return is_nothing ? FieldError{} : FieldError{foreign.data(), instead.data()};
  return request_.set(name, option, reason);
}

FieldError GenerateReader::read_text(const JsonValue& value, ReasonText& reason) {
  std::string_view text;
  if (value.get(text)) return {kText, "must be a string"};
  FieldError error;
  if (InputTensor* tensor = request_.open_input("text", error, reason)) {
    tensor->datatype = "BYTES";
    tensor->shape.push_back(1);
    tensor->texts.push_back(text);
  }
  return error;
}

namespace {

using Items = std::span<const ResponseView>;
using service::AnsweredCall;
using transport::JsonWriter;

constexpr size_t kAroundText = 256;  // more than what is constant

size_t room_of(const GenerationView& made) {
  const PromptView& prompt = made.prompt;
  const size_t numbers = made.token_ids.size() + made.top.ids.size() + prompt.token_ids.size() + prompt.top.ids.size();
  return kAroundText + JsonWriter::string_room(prompt.text.size() + made.text.size()) +
         numbers * (JsonWriter::kIntegerBytes + JsonWriter::kFloatBytes + 4) + 8 * (made.token_ids.size() + 8) +
         8 * prompt.token_ids.size();
}

size_t room_of(const AnsweredCall& call, Items items) {
  size_t room = 2 * kAroundText + call.context.size() * 6 + JsonWriter::string_room(call.model_version.size());
  for (const ResponseView& item : items) room += room_of(item.generation);
  return room;
}

// Calls write(i) for each element of an array.
template <class Write>
void write_array(JsonWriter& out, size_t n, Write write) {
  out.raw("[");
  for (size_t i = 0; i < n; i++) {
    if (i) out.raw(",");
    write(i);
  }
  out.raw("]");
}

void write_ids(JsonWriter& out, std::string_view name, std::span<const u32> ids) {
  out.raw(",\"").raw(name).raw("\":");
  write_array(out, ids.size(), [&](size_t i) { out.number(u64(ids[i])); });
}

// A row of likeliest tokens for each of n tokens.
void write_top(JsonWriter& out, std::string_view prefix, const TopView& top, size_t n) {
  if (top.ids.empty() || !n) return;
  const size_t columns = top.ids.size() / n;
  out.raw(",\"").raw(prefix).raw("top_token_id\":");
  write_array(out, n, [&](size_t row) {
    write_array(out, columns, [&](size_t i) { out.number(u64(top.ids[row * columns + i])); });
  });
  out.raw(",\"").raw(prefix).raw("top_logprob\":");
  write_array(out, n, [&](size_t row) { out.floats(top.logprobs.subspan(row * columns, columns)); });
}

// The members of one text. asked: OutputBits.
void write_members(JsonWriter& out, const GenerationView& made, OutputSet asked) {
  const PromptView& prompt = made.prompt;
  out.raw(R"("text_output":)");
  prompt.text.empty() ? out.string(made.text) : out.string(std::string(prompt.text).append(made.text));
  if (made.finish_reason != FinishReason::kUnspecified)
    out.raw(R"(,"finish_reason":)").string(word_of(made.finish_reason));
  if (asked & kOutLogprob) {
    write_ids(out, "token_id", made.token_ids);
    out.raw(R"(,"logprob":)").floats(made.logprobs);
    if (asked & kOutTop) write_top(out, "", made.top, made.token_ids.size());
  }
  if (asked & kOutPrompt && !prompt.token_ids.empty()) {
    write_ids(out, "prompt_token_id", prompt.token_ids);
    out.raw(R"(,"prompt_logprob":)").floats(prompt.logprobs);
    if (asked & kOutPromptTop) write_top(out, "prompt_", prompt.top, prompt.token_ids.size() - 1);
  }
}

void write_head(JsonWriter& out, const AnsweredCall& call, const InferContext& context) {
  const ServedModel model = served_model(call.model_version);
  out.raw(R"({"model_name":)").string(model.name).raw(R"(,"model_version":)").string(model.version);
  if (!context.id.empty()) out.raw(R"(,"id":)").string(context.id);
  out.raw(",");
}

void write_usage(JsonWriter& out, u64 input, u64 output) {
  out.raw(R"(,"num_input_tokens":)").number(input).raw(R"(,"num_output_tokens":)").number(output);
}

class GenerateWriter final : public service::AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, Items items) const override { return room_of(call, items); }

  u8* write(const AnsweredCall& call, Items items, u8* buffer) const override {
    JsonWriter out(buffer);
    const InferContext context = InferContext::read(call.context);
    const ChosenItems chosen(context.choices, items);
    write_head(out, call, context);
    write_members(out, chosen.all()[0].generation, context.outputs);
    if (const Items others = chosen.all().subspan(1); !others.empty()) {
      out.raw(R"(,"other_choices":)");
      write_array(out, others.size(), [&](size_t i) {
        out.raw("{");
        write_members(out, others[i].generation, context.outputs);
        out.raw("}");
      });
    }
    u64 made = 0;
    for (const ResponseView& item : items) made += item.usage->output_tokens;
    write_usage(out, call.prefix_tokens + items[0].usage->input_tokens, made);
    return out.raw("}").end();
  }

  size_t chunk_room(const AnsweredCall& call, const ChunkView& chunk) const override {
    return room_of(call, {}) + room_of(chunk.generation);
  }
  u8* write_chunk(const AnsweredCall& call, const ChunkView& chunk, u8* buffer) const override {
    JsonWriter out(buffer);
    const InferContext context = InferContext::read(call.context);
    out.raw("data: ");
    write_head(out, call, context);
    write_members(out, chunk.generation, context.outputs);
    if (chunk.call) write_usage(out, call.prefix_tokens + chunk.call->input_tokens, chunk.call->output_tokens);
    return out.raw("}\n\n").end();
  }
  const service::FieldNames* fields() const override { return &service::kGenerateFields; }
};
const GenerateWriter generate_writer;

}  // namespace

const service::AnswerWriter& kGenerateWriter = generate_writer;

}  // namespace fastqps::protocols

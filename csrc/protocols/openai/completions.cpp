#include <algorithm>
#include <charconv>
#include <cstdio>
#include <ctime>
#include <vector>

#include "protocols/json/structures.h"
#include "protocols/openai/logprobs.h"
#include "protocols/openai/openai.h"
#include "transport/http/json_writer.h"

namespace fastqps::protocols {

namespace {

using service::AnsweredCall;
using transport::JsonWriter;
using Items = std::span<const ResponseView>;

constexpr u32 kDefaultTokens = 16;  // as OpenAI's API has it
constexpr size_t kAround = 256;     // the constant parts of an answer, or of one choice
constexpr std::string_view kDone = "data: [DONE]\n\n";

using Usage = CompletionsHead::Usage;
using Form = CompletionsHead::Form;

Form form_of(const AnsweredCall& call) { return head_of<CompletionsHead>(call.context).form; }

// An echo, and vLLM's form.
size_t prompt_room(const AnsweredCall& call, const PromptView& prompt) {
  if (prompt.token_ids.empty()) return 0;
  const CompletionsHead head = head_of<CompletionsHead>(call.context);
  const u32 lists = u32(head.echo && head.echo_top >= 0) + u32(head.prompt_top >= 0);
  return kAround + JsonWriter::string_room(prompt.text.size()) + lists * prompt_logprobs_room(call, prompt);
}

size_t choice_room(const AnsweredCall& call, const GenerationView& generation) {
  size_t room = kAround + JsonWriter::string_room(generation.text.size()) + logprobs_room(call, generation);
  for (const ChoiceScore& each : generation.choice_scores) room += kAround + JsonWriter::string_room(each.text.size());
  return room;
}

// How likely each text was that the request lets the model choose from: beside OpenAI's fields.
void write_scores(JsonWriter& out, std::span<const ChoiceScore> choices) {
  out.raw(R"(,"choice_scores":[)");
  for (const ChoiceScore& each : choices) {
    if (&each != choices.data()) out.raw(",");
    out.raw(R"({"text":)").string(each.text).raw(R"(,"logprob":)").number(each.logprob);
    out.raw(R"(,"score":)").number(each.score).raw("}");
  }
  out.raw("]");
}

// What was said: a text, a message, or a part of one.
enum class Said : u8 { kText, kMessage, kRole, kPart, kEnd };

void write_said(JsonWriter& out, Said said, std::string_view text) {
  switch (said) {
    case Said::kText:
      return void(out.raw(R"("text":)").string(text));
    case Said::kMessage:
      return void(out.raw(R"("message":{"role":"assistant","content":)").string(text).raw(R"(,"refusal":null})"));
    case Said::kRole:
      return void(out.raw(R"("delta":{"role":"assistant","content":""})"));
    case Said::kPart:
      return void(out.raw(R"("delta":{"content":)").string(text).raw("}"));
    case Said::kEnd:
      return void(out.raw(R"("delta":{})"));
  }
}

void write_choice(JsonWriter& out, const AnsweredCall& call, u64 index, const GenerationView& generation, Said said,
                  const PromptView& prompt) {
  const CompletionsHead head = head_of<CompletionsHead>(call.context);
  const bool echo = head.echo && !prompt.token_ids.empty();
  const std::string whole = echo ? std::string(prompt.text).append(generation.text) : std::string();
  out.raw("{");
  write_said(out, said, echo ? whole : generation.text);
  out.raw(R"(,"index":)").number(index).raw(R"(,"logprobs":)");
  if (head.form == Form::kChat)
    write_chat_logprobs(out, call, generation);
  else
    write_text_logprobs(out, call, generation, echo && head.echo_top >= 0 ? Echo{&prompt, u32(head.echo_top)} : Echo{});
  const char* reason = generation.finish_reason == FinishReason::kStop     ? R"("stop")"
                       : generation.finish_reason == FinishReason::kLength ? R"("length")"
                                                                           : "null";
  out.raw(R"(,"finish_reason":)").raw(reason);
  if (!generation.choice_scores.empty()) write_scores(out, generation.choice_scores);
  if (head.form == Form::kText && head.prompt_top >= 0) {
    out.raw(R"(,"prompt_logprobs":)");
    write_prompt_logprobs(out, call, prompt, u32(head.prompt_top));
  }
  out.raw("}");
}

// Those of one prompt, from `index` on. Returns the next one's index.
u64 write_choices(JsonWriter& out, const AnsweredCall& call, Items candidates, u64 index) {
  const Said said = form_of(call) == Form::kChat ? Said::kMessage : Said::kText;
  const PromptView& prompt = candidates[0].generation.prompt;  // of all
  const auto write = [&](const GenerationView& generation) {
    if (index) out.raw(",");
    write_choice(out, call, index++, generation, said, prompt);
  };
  if (candidates.size() == 1) return write(candidates[0].generation), index;
  std::vector<GenerationView> choices;
  choose(head_of<CompletionsHead>(call.context).choices, candidates, choices);
  for (const GenerationView& choice : choices) write(choice);
  return index;
}

void write_head(JsonWriter& out, const AnsweredCall& call, bool chunk) {
  const char* object = form_of(call) == Form::kText ? "text_completion"
                       : chunk                      ? "chat.completion.chunk"
                                                    : "chat.completion";
  out.raw(R"({"object":")").raw(object).raw("\",").raw(behind<CompletionsHead>(call.context));
  out.raw(R"(,"model":)").string(call.model()).raw(R"(,"choices":[)");
}

// That of a call's prompts, each of which counts once, from that of all candidates.
CallUsage of_prompts(const AnsweredCall& call, const CallUsage& usage) {
  const u32 candidates = head_of<CompletionsHead>(call.context).choices.candidates;
  return {usage.items / candidates, usage.input_tokens / candidates, usage.output_tokens};
}

// The prefix that all prompts share counts as cached.
void write_usage(JsonWriter& out, const AnsweredCall& call, const CallUsage& usage) {
  const u64 cached = u64(usage.items) * call.prefix_tokens, prompt = usage.input_tokens + cached,
            completion = usage.output_tokens;
  out.raw(R"("usage":{"prompt_tokens":)").number(prompt).raw(R"(,"completion_tokens":)").number(completion);
  out.raw(R"(,"total_tokens":)").number(prompt + completion);
  if (cached) out.raw(R"(,"prompt_tokens_details":{"cached_tokens":)").number(cached).raw("}");
  out.raw("}");
}

// usage: nullptr: none.
void write_event_end(JsonWriter& out, const AnsweredCall& call, const CallUsage* usage) {
  if (!usage) return void(out.raw("]}\n\n"));
  out.raw("],");
  write_usage(out, call, *usage);
  out.raw("}\n\n");
}

// An event of a stream.
void write_event(JsonWriter& out, const AnsweredCall& call, const ChunkView& chunk, const GenerationView& generation,
                 Said said) {
  CallUsage of_choice;
  const bool so_far = chunk.usage && head_of<CompletionsHead>(call.context).usage == Usage::kSoFar;
  if (so_far) of_choice = {1, chunk.usage->input_tokens, chunk.usage->output_tokens};
  out.raw("data: ");
  write_head(out, call, true);
  write_choice(out, call, chunk.choice, generation, said, generation.prompt);
  write_event_end(out, call, so_far ? &of_choice : nullptr);
}

// A message's role comes alone and first, and the reason of its end alone and last.
void write_message_events(JsonWriter& out, const AnsweredCall& call, const ChunkView& chunk) {
  GenerationView part = chunk.generation;
  part.finish_reason = FinishReason::kUnspecified;
  if (chunk.usage && chunk.usage->output_tokens == part.token_ids.size())
    write_event(out, call, chunk, {}, Said::kRole);
  if (!part.text.empty() || !part.logprobs.empty()) write_event(out, call, chunk, part, Said::kPart);
  if (chunk.generation.finish_reason == FinishReason::kUnspecified) return;
  GenerationView end;
  end.finish_reason = chunk.generation.finish_reason;
  write_event(out, call, chunk, end, Said::kEnd);
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

CompletionsReader::CompletionsReader(u32 items_max) : CompletionsReader(kCompletionsApi, items_max) {}

FieldRows CompletionsReader::fields() const {
  static constexpr FieldRow kFields[] = {
      {"prompt", into<&CompletionsReader::prompt_>, kInput},
      {"logprobs", by<&CompletionsReader::read_logprobs>},
      {"echo", into<&CompletionsReader::echo_>},
      {"messages", refused<"are of /v1/chat/completions">},
      {"suffix", only_empty<std::string_view, "models here go on with a prompt and fill no gap in it; leave it out">},
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
      {"n", base_option<&RequestView::generate, &GenerateOptions::n>},
      {"best_of", base_option<&RequestView::generate, &GenerateOptions::best_of>},
      {"logit_bias", by<&CompletionsReader::read_logit_bias>},
      {"prompt_logprobs", by<&CompletionsReader::read_prompt_logprobs>},
      {"length_penalty", only<1>},
      {"use_beam_search", only<false, "beam search is not supported">},
      {"early_stopping", only<false>},
      {"skip_special_tokens", only<true>},
      {"spaces_between_special_tokens", only<true>},
      {"include_stop_str_in_output", renamed<"include_stop_text">},
      {"bad_words", only_empty<JsonArray, "use suppress_token_ids or logit_bias, which take token ids">},
      {"allowed_token_ids", only_empty<JsonArray, "use guided_choice, guided_regex or logit_bias">},
      {"detokenize", only<true, "texts are always made; gRPC's Predict gives token ids, too">},
      {"return_tokens_as_token_ids", only<false, "tokens are named by their text; gRPC's Predict gives token ids">},
      {"return_token_ids", only<false, "use gRPC's Predict, which gives token ids">},
      {"truncate_prompt_tokens", refused<"use truncate, which cuts a prompt to the model's limit">},
      {"prompt_embeds", refused<"a prompt can be a text or token ids">},
      {"logits_processors", only_empty<JsonArray, "code of clients is not run; use logit_bias">},
      {"structural_tag", refused<"use structured_outputs with json, regex, grammar or choice">},
      {"guided_decoding_backend", refused<"there is one backend, llguidance; leave it out">},
      {"guided_whitespace_pattern", refused<"use guided_regex or guided_grammar, which say where white space can be">},
      {"cache_salt", refused<"no prompts are cached but the server's --prefix; leave it out">},
      {"request_id", refused<"answers have an id of this server; leave it out">},
      // Of Ollama's and llama.cpp's APIs, and of OpenAI's client.
      {"options",
       refused<"is Ollama's: its members are fields of the request here, such as temperature and max_tokens">},
      {"format", refused<"is Ollama's: use response_format">},
      {"keep_alive", refused<"models stay loaded; leave it out">},
      {"think", refused<"use enable_thinking of a chat">},
      {"num_predict", refused<"use max_tokens">},
      {"n_predict", refused<"use max_tokens">},
      {"repeat_penalty", refused<"use repetition_penalty">},
      {"n_probs", refused<"use logprobs, and top_logprobs of a chat">},
      {"grammar", refused<"use guided_grammar">},
      {"json_schema", refused<"use response_format or guided_json">},
      {"cache_prompt", refused<"no prompts are cached but the server's --prefix; leave it out">},
      {"extra_body", refused<"is a parameter of OpenAI's client, which sends its members as fields of the request">},
      {"response_format", structure<read_response_format>},
      {"guided_json", structure<read_guided<Structure::kJsonSchema>>},
      {"guided_regex", structure<read_guided<Structure::kRegex>>},
      {"guided_grammar", structure<read_guided<Structure::kGrammar>>},
      {"guided_choice", renamed<"choices">},
      {"structured_outputs", by<&CompletionsReader::read_structured_outputs>},
  };
  return kFields;
}

FieldError CompletionsReader::check(const transport::CallInfo&, ReasonText& reason) {
  if (!prompt_.given()) return {"prompt", "must be given"};
  if (options_.base.generate.prompt_alone() && !echo_ && !prompt_top_)
    return {"max_tokens", "0, must be at least 1 without echo or prompt_logprobs"};
  return finish(CompletionsHead::Form::kText, reason);
}

FieldError CompletionsReader::finish(CompletionsHead::Form form, ReasonText& reason) {
  GenerateOptions& options = options_.base.generate;
  if (prompt_top_ && stream_) return {"prompt_logprobs", "cannot be given with stream, as in vLLM; use echo"};
  options.echo = echo_;
  if (prompt_top_) ask_prompt(*prompt_top_);
  if (echo_ && options.logprobs) ask_prompt(options.top_logprobs);
  if (FieldError error = check_best_of(options, prompts(), items_max_, stream_, reason)) {
    error.field += std::string_view("generate.").size();
    return error;
  }
  // Without include_usage no event has it, as in vLLM.
  const CompletionsHead head{!usage_         ? Usage::kNone
                             : usage_so_far_ ? Usage::kSoFar
                                             : Usage::kAtEnd,
                             ignored_.letter(),
                             form,
                             BestOf::of(options),
                             echo_,
                             echo_ && options.logprobs ? i8(options.top_logprobs) : CompletionsHead::kNoTop,
                             prompt_top_ ? i8(*prompt_top_) : CompletionsHead::kNoTop};
  char text[96];
  const int bytes =
      std::snprintf(text, sizeof text, R"("id":"%s-%s","created":%lld)", form == Form::kChat ? "chatcmpl" : "cmpl",
                    next_id().text, (long long)std::time(nullptr));
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
  return read_parts(field, kOptions);
}

FieldError CompletionsReader::read_structured_outputs(const GivenField& field) {
  static constexpr FieldRow kKinds[] = {
      {"structured_outputs.json", structure<read_guided<Structure::kJsonSchema>>},
      {"structured_outputs.regex", structure<read_guided<Structure::kRegex>>},
      {"structured_outputs.grammar", structure<read_guided<Structure::kGrammar>>},
      {"structured_outputs.choice", renamed<"choices">},
      {"structured_outputs.json_object", structure<read_json_object>},
  };
  return read_parts(field, kKinds);
}

// Of so many likeliest tokens in each place; of the chosen one in any case.
FieldError CompletionsReader::read_logprobs(const GivenField& field) {
  u32 count;
  if (const char* why = service::to_u32(field.option(), &count)) return {field.name, why};
  if (count > kTopLogprobsMax) return {field.name, field.reason.print("%u, at most %u", count, kTopLogprobsMax)};
  options_.base.generate.logprobs = true;
  options_.base.generate.top_logprobs = count;
  return {};
}

FieldError CompletionsReader::read_prompt_logprobs(const GivenField& field) {
  u32 count;
  if (const char* why = service::to_u32(field.option(), &count)) return {field.name, why};
  if (count > kTopLogprobsMax) return {field.name, field.reason.print("%u, at most %u", count, kTopLogprobsMax)};
  prompt_top_ = count;
  return {};
}

void CompletionsReader::ask_prompt(u32 top) {
  GenerateOptions& options = options_.base.generate;
  options.set_given(kPromptLogprobsField);
  options.prompt_logprobs = std::max(options.prompt_logprobs, top);
}

// As OpenAI's API has it: the keys are token ids.
FieldError CompletionsReader::read_logit_bias(const GivenField& field) {
  JsonObject tokens;
  if (field.value.get(tokens)) return {field.name, "must be an object of token ids and numbers"};
  if (tokens.size() > kLogitBiasMax)
    return {field.name, field.reason.print("%zu tokens, at most %u", tokens.size(), kLogitBiasMax)};
  biases_.clear();
  for (const auto [name, value] : tokens) {
    TokenBias& each = biases_.emplace_back();
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), each.id);
    if (error != std::errc() || end != name.data() + name.size())
      return {field.name, field.reason.print("'%.*s' is no token id", shown(name), name.data())};
    if (const char* why = service::to_float(option_value(value), &each.bias))
      return {field.name, field.reason.print("the value of token %u %s", each.id, why)};
  }
  options_.base.biases = biases_;
  options_.base.generate.logit_bias.count = u32(biases_.size());
  return {};
}

namespace {

class CompletionsWriter final : public service::AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, Items items) const override {
    size_t room = 2 * kAround + call.context.size() + JsonWriter::string_room(call.model_version.size());
    const u32 candidates = head_of<CompletionsHead>(call.context).choices.candidates;
    for (size_t at = 0; at < items.size(); at += candidates) {
      room += candidates * prompt_room(call, items[at].generation.prompt);
      for (const ResponseView& item : items.subspan(at, candidates)) room += choice_room(call, item.generation);
    }
    return room;
  }

  u8* write(const AnsweredCall& call, Items items, u8* buffer) const override {
    JsonWriter out(buffer);
    const CompletionsHead head = head_of<CompletionsHead>(call.context);
    const u32 candidates = head.choices.candidates;
    CallUsage usage;
    write_head(out, call, false);
    u64 index = 0;
    for (size_t at = 0; at < items.size(); at += candidates)
      index = write_choices(out, call, items.subspan(at, candidates), index);
    for (const ResponseView& item : items) {
      usage.items++;
      if (!item.usage) continue;
      usage.input_tokens += item.usage->input_tokens;
      usage.output_tokens += item.usage->output_tokens;
    }
    out.raw("],");
    if (head.form == Form::kChat && head.prompt_top >= 0) {
      out.raw(R"("prompt_logprobs":)");
      write_prompt_logprobs(out, call, items[0].generation.prompt, u32(head.prompt_top));
      out.raw(",");
    }
    write_usage(out, call, of_prompts(call, usage));
    return out.raw("}").end();
  }

  size_t chunk_room(const AnsweredCall& call, const ChunkView& chunk) const override {
    const size_t head = kAround + call.context.size() + JsonWriter::string_room(call.model_version.size());
    return choice_room(call, chunk.generation) + prompt_room(call, chunk.generation.prompt) + 4 * (head + kAround) +
           kDone.size();
  }

  // One event, or of a message several. The last one of all choices is followed by that of the usage, if asked for, and
  // by the end of the stream.
  u8* write_chunk(const AnsweredCall& call, const ChunkView& chunk, u8* buffer) const override {
    JsonWriter out(buffer);
    form_of(call) == Form::kChat ? write_message_events(out, call, chunk)
                                 : write_event(out, call, chunk, chunk.generation, Said::kText);
    if (!chunk.call) return out.end();
    if (head_of<CompletionsHead>(call.context).usage != Usage::kNone) {
      out.raw("data: ");
      write_head(out, call, true);
      const CallUsage usage = of_prompts(call, *chunk.call);
      write_event_end(out, call, &usage);
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

#include "protocols/openai/logprobs.h"

#include <algorithm>
#include <cmath>

#include "contract/utf8.h"
#include "text/load/detokenizer.h"

namespace fastqps::protocols {

namespace {

using service::AnsweredCall;
using transport::JsonWriter;

constexpr std::string_view kTokenName = "token_id:", kBytesName = "bytes:";

// A token alone, which may be a part of a character. Empty: it has no text.
std::string_view token_bytes(const text::Detokenizer* texts, u32 id) {
  if (!texts) return {};
  const std::string_view bytes = texts->bytes(id);
  return bytes.empty() ? texts->special(id) : bytes;
}

// As OpenAI's API names tokens: by their text, or by their bytes where those are no whole characters. One that has no
// text is named by its id. before: what stands in front of bytes.
void write_name(JsonWriter& out, std::string_view bytes, u32 id, std::string_view before) {
  if (bytes.empty()) return void(out.raw("\"").raw(kTokenName).number(u64(id)).raw("\""));
  if (text::valid_utf8(bytes)) return void(out.string(bytes));
  constexpr char kDigits[] = "0123456789abcdef";
  out.raw("\"").raw(before);
  for (const char each : bytes) {
    const char escaped[] = {'\\', '\\', 'x', kDigits[u8(each) >> 4], kDigits[u8(each) & 15]};
    out.raw({escaped, sizeof escaped});
  }
  out.raw("\"");
}

// Tokens of an answer, or those of its prompt but for the first.
struct Tokens {
  std::span<const u32> ids;
  std::span<const float> logprobs;
  TopView top;
  u32 shown = kTopLogprobsMax;  // of the likeliest
};

Tokens tokens_of(const GenerationView& generation) {
  return {generation.token_ids, generation.logprobs, generation.top};
}
Tokens tokens_of(const PromptView& prompt, u32 shown) {
  const std::span<const u32> ids = prompt.token_ids;
  return {ids.subspan(std::min<size_t>(ids.size(), 1)), prompt.logprobs, prompt.top, shown};
}

// The likeliest tokens in the place of token i, and its own place among them; their number if it is none.
struct Likeliest {
  std::span<const u32> ids;
  std::span<const float> logprobs;
  size_t own;
};

Likeliest likeliest_of(const Tokens& tokens, size_t i) {
  const size_t each = tokens.top.ids.size() / tokens.ids.size(), most = std::min<size_t>(each, tokens.shown);
  const std::span<const float> logprobs = tokens.top.logprobs.subspan(i * each, each);
  size_t n = 0, own = 0;
  while (n < most && std::isfinite(logprobs[n])) n++;  // the others cannot be chosen
  const std::span<const u32> ids = tokens.top.ids.subspan(i * each, n);
  while (own < n && ids[own] != tokens.ids[i]) own++;
  return {ids, logprobs.first(n), own};
}

// A map by the tokens' names: of those with the same one the likeliest. The token itself comes last unless it is there.
void write_map(JsonWriter& out, const AnsweredCall& call, const Tokens& tokens, size_t i) {
  const Likeliest top = likeliest_of(tokens, i);
  const size_t n = top.ids.size() + (top.own == top.ids.size());
  std::string_view names[kTopLogprobsMax + 1];
  out.raw("{");
  for (size_t k = 0; k < n; k++) {
    const bool more = k < top.ids.size();
    const u32 id = more ? top.ids[k] : tokens.ids[i];
    names[k] = token_bytes(call.texts, id);
    if (!names[k].empty() && std::find(names, names + k, names[k]) != names + k) continue;
    if (k) out.raw(",");
    write_name(out, names[k], id, kBytesName);
    out.raw(":").number(more ? top.logprobs[k] : tokens.logprobs[i]);
  }
  out.raw("}");
}

void write_object(JsonWriter& out, const AnsweredCall& call, u32 id, float logprob) {
  const std::string_view bytes = token_bytes(call.texts, id);
  out.raw(R"({"token":)");
  write_name(out, bytes, id, "");
  out.raw(R"(,"logprob":)").number(logprob).raw(R"(,"bytes":)");
  if (bytes.empty()) return void(out.raw("null"));
  out.raw("[").bytes({text::utf8_bytes(bytes), bytes.size()}, false).raw("]");
}

template <class Write>
void write_list(JsonWriter& out, size_t n, Write write) {
  out.raw("[");
  for (size_t i = 0; i < n; i++) {
    if (i) out.raw(",");
    write(i);
  }
  out.raw("]");
}

// The arrays of the form of completions: those of a prompt's tokens, if there are any, and of the answer's behind them.
class TextArrays {
 public:
  TextArrays(JsonWriter& out, const AnsweredCall& call, const GenerationView& generation, Echo echo)
      : out_(out), call_(call), generation_(generation), prompt_(echo.prompt), answer_(tokens_of(generation)) {
    if (prompt_) before_ = tokens_of(*prompt_, echo.top);
    n_prompt_ = prompt_ ? prompt_->token_ids.size() : 0;
  }

  void write_names() const {
    write([&](size_t i) { name(prompt_->token_ids[i]); }, [&](size_t i) { name(answer_.ids[i]); });
  }
  void write_logprobs() const {
    const auto own = [&](size_t i) { i ? void(out_.number(before_.logprobs[i - 1])) : void(out_.raw("null")); };
    write(own, [&](size_t i) { out_.number(answer_.logprobs[i]); });
  }
  void write_maps() const {
    const auto own = [&](size_t i) { i ? write_map(out_, call_, before_, i - 1) : void(out_.raw("null")); };
    write(own, [&](size_t i) { write_map(out_, call_, answer_, i); });
  }
  void write_offsets() const {
    const auto at = [](std::span<const u32> offsets, size_t i) { return u64(i < offsets.size() ? offsets[i] : 0); };
    write([&](size_t i) { out_.number(at(prompt_->text_offsets, i)); },
          [&](size_t i) { out_.number(at(generation_.text_offsets, i)); });
  }

 private:
  template <class OfPrompt, class OfAnswer>
  void write(OfPrompt of_prompt, OfAnswer of_answer) const {
    write_list(out_, n_prompt_ + answer_.ids.size(),
               [&](size_t i) { i < n_prompt_ ? of_prompt(i) : of_answer(i - n_prompt_); });
  }
  void name(u32 id) const { write_name(out_, token_bytes(call_.texts, id), id, kBytesName); }

  JsonWriter& out_;
  const AnsweredCall& call_;
  const GenerationView& generation_;
  const PromptView* prompt_;
  Tokens before_ = {}, answer_;
  size_t n_prompt_;
};

constexpr size_t kAroundTokens = 128;  // what is constant in each form
constexpr size_t kTokenBytes =
    128 + kTokenName.size() + kBytesName.size() + 3 * JsonWriter::kIntegerBytes + JsonWriter::kFloatBytes;

size_t token_room(const AnsweredCall& call, u32 id) {
  const size_t bytes = token_bytes(call.texts, id).size();
  return kTokenBytes + JsonWriter::string_room(bytes) + JsonWriter::bytes_room(bytes);
}

// A token may stand in a list and in a map.
size_t tokens_room(const AnsweredCall& call, std::span<const u32> ids, const TopView& top) {
  size_t room = kAroundTokens;
  for (const u32 id : ids) room += 2 * token_room(call, id);
  for (const u32 id : top.ids) room += token_room(call, id);
  return room;
}

// What vLLM says of one token. rank: 0: not known.
void write_ranked(JsonWriter& out, const AnsweredCall& call, u32 id, float logprob, size_t rank) {
  out.raw("\"").number(u64(id)).raw(R"(":{"logprob":)").number(logprob).raw(R"(,"rank":)");
  rank ? out.number(u64(rank)) : out.raw("null");
  const std::string_view bytes = token_bytes(call.texts, id);
  out.raw(R"(,"decoded_token":)");
  bytes.empty() ? out.raw("null") : out.string(text::repaired_utf8(bytes));
  out.raw("}");
}

}  // namespace

size_t logprobs_room(const AnsweredCall& call, const GenerationView& generation) {
  return generation.logprobs.empty() ? kAroundTokens : tokens_room(call, generation.token_ids, generation.top);
}

size_t prompt_logprobs_room(const AnsweredCall& call, const PromptView& prompt) {
  return tokens_room(call, prompt.token_ids, prompt.top);
}

void write_text_logprobs(JsonWriter& out, const AnsweredCall& call, const GenerationView& generation, Echo echo) {
  if (generation.logprobs.empty() && !echo.prompt) return void(out.raw("null"));
  const TextArrays arrays(out, call, generation, echo);
  out.raw(R"({"tokens":)");
  arrays.write_names();
  out.raw(R"(,"token_logprobs":)");
  arrays.write_logprobs();
  out.raw(R"(,"top_logprobs":)");
  arrays.write_maps();
  out.raw(R"(,"text_offset":)");
  arrays.write_offsets();
  out.raw("}");
}

void write_chat_logprobs(JsonWriter& out, const AnsweredCall& call, const GenerationView& generation) {
  if (generation.logprobs.empty()) return void(out.raw("null"));
  out.raw(R"({"content":)");
  const Tokens tokens = tokens_of(generation);
  write_list(out, tokens.ids.size(), [&](size_t i) {
    const Likeliest top = likeliest_of(tokens, i);
    write_object(out, call, generation.token_ids[i], generation.logprobs[i]);
    out.raw(R"(,"top_logprobs":)");
    write_list(out, top.ids.size(), [&](size_t k) {
      write_object(out, call, top.ids[k], top.logprobs[k]);
      out.raw("}");
    });
    out.raw("}");
  });
  out.raw(R"(,"refusal":null})");
}

void write_prompt_logprobs(JsonWriter& out, const AnsweredCall& call, const PromptView& prompt, u32 top) {
  const Tokens all = tokens_of(prompt, kTopLogprobsMax);
  write_list(out, prompt.token_ids.size(), [&](size_t i) {
    if (!i) return void(out.raw("null"));
    const Likeliest found = likeliest_of(all, i - 1);
    const bool among = found.own < found.ids.size();
    out.raw("{");
    write_ranked(out, call, all.ids[i - 1], all.logprobs[i - 1], among ? found.own + 1 : 0);
    for (size_t k = 0; k < std::min<size_t>(found.ids.size(), top); k++) {
      if (k == found.own) continue;
      out.raw(",");
      write_ranked(out, call, found.ids[k], found.logprobs[k], k + 1);
    }
    out.raw("}");
  });
}

}  // namespace fastqps::protocols

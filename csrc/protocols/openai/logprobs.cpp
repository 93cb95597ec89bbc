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

// The likeliest tokens in the place of token i, and the chosen one's place among them; their number if it is none.
struct Likeliest {
  std::span<const u32> ids;
  std::span<const float> logprobs;
  size_t chosen;
};

Likeliest likeliest_of(const GenerationView& generation, size_t i) {
  const size_t each = generation.top.ids.size() / generation.token_ids.size();
  const std::span<const float> logprobs = generation.top.logprobs.subspan(i * each, each);
  size_t n = 0, chosen = 0;
  while (n < each && std::isfinite(logprobs[n])) n++;  // the others cannot be chosen
  const std::span<const u32> ids = generation.top.ids.subspan(i * each, n);
  while (chosen < n && ids[chosen] != generation.token_ids[i]) chosen++;
  return {ids, logprobs.first(n), chosen};
}

// A map by the tokens' names: of those with the same one the likeliest. The chosen token comes last unless it is there.
void write_map(JsonWriter& out, const AnsweredCall& call, const GenerationView& generation, size_t i) {
  const Likeliest top = likeliest_of(generation, i);
  const size_t n = top.ids.size() + (top.chosen == top.ids.size());
  std::string_view names[kTopLogprobsMax + 1];
  out.raw("{");
  for (size_t k = 0; k < n; k++) {
    const bool more = k < top.ids.size();
    const u32 id = more ? top.ids[k] : generation.token_ids[i];
    names[k] = token_bytes(call.texts, id);
    if (!names[k].empty() && std::find(names, names + k, names[k]) != names + k) continue;
    if (k) out.raw(",");
    write_name(out, names[k], id, kBytesName);
    out.raw(":").number(more ? top.logprobs[k] : generation.logprobs[i]);
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

}  // namespace

size_t logprobs_room(const AnsweredCall& call, const GenerationView& generation) {
  constexpr size_t kAround = 128;  // what is constant in either form
  constexpr size_t kPerToken =
      128 + kTokenName.size() + kBytesName.size() + 2 * JsonWriter::kIntegerBytes + JsonWriter::kFloatBytes;
  if (generation.logprobs.empty()) return kAround;
  const auto of = [&](u32 id) {
    const size_t bytes = token_bytes(call.texts, id).size();
    return kPerToken + JsonWriter::string_room(bytes) + JsonWriter::bytes_room(bytes);
  };
  size_t room = kAround;
  for (const u32 id : generation.token_ids) room += 2 * of(id);  // it may stand in a list and in a map
  for (const u32 id : generation.top.ids) room += of(id);
  return room;
}

void write_text_logprobs(JsonWriter& out, const AnsweredCall& call, const GenerationView& generation) {
  if (generation.logprobs.empty()) return void(out.raw("null"));
  const std::span<const u32> ids = generation.token_ids;
  out.raw(R"({"tokens":)");
  write_list(out, ids.size(), [&](size_t i) { write_name(out, token_bytes(call.texts, ids[i]), ids[i], kBytesName); });
  out.raw(R"(,"token_logprobs":)").floats(generation.logprobs).raw(R"(,"top_logprobs":)");
  write_list(out, ids.size(), [&](size_t i) { write_map(out, call, generation, i); });
  out.raw(R"(,"text_offset":)");
  write_list(out, generation.text_offsets.size(), [&](size_t i) { out.number(u64(generation.text_offsets[i])); });
  out.raw("}");
}

void write_chat_logprobs(JsonWriter& out, const AnsweredCall& call, const GenerationView& generation) {
  if (generation.logprobs.empty()) return void(out.raw("null"));
  out.raw(R"({"content":)");
  write_list(out, generation.token_ids.size(), [&](size_t i) {
    const Likeliest top = likeliest_of(generation, i);
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

}  // namespace fastqps::protocols

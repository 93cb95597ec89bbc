#include "rerank/writer.h"

#include "http/json_writer.h"
#include "rerank/answer_head.h"
#include "tei/rank_context.h"
#include "tei/scores.h"

namespace fastqps::front {

size_t DocumentsWriter::room(const AnsweredCall& call, std::span<const ResponseView> items) const {
  constexpr size_t kAround = 256;  // the constant parts of the answer
  constexpr size_t kResult = 80 + JsonWriter::kIntegerBytes + JsonWriter::kFloatBytes;
  const size_t names = JsonWriter::string_room(call.model_version.size()) + sizeof(AnswerHead);
  return kAround + names + JsonWriter::string_room(call.context.size()) + items.size() * kResult +
         2 * JsonWriter::kIntegerBytes;
}

u8* DocumentsWriter::write(const AnsweredCall& call, std::span<const ResponseView> items, u8* buffer) const {
  JsonWriter out(buffer);
  const AnswerHead head = AnswerHead::of(call.context);
  const std::string_view context = AnswerHead::rest(call.context);
  const bool returns_documents = RankContext::returns_text(context);
  const std::vector<std::string_view> documents = RankContext::texts(context);
  std::vector<Rank> ranks = ranked(items);
  if (ranks.size() > head.results_max) ranks.resize(head.results_max);
  out.raw(R"({"id":")").raw(head.id).raw(R"(","model":)").string(call.model()).raw(R"(,"results":[)");
  for (size_t i = 0; i < ranks.size(); i++) {
    out.raw(i ? R"(,{"index":)" : R"({"index":)").number(u64(ranks[i].index));
    out.raw(R"(,"relevance_score":)").number(ranks[i].score);
    if (returns_documents) out.raw(R"(,"document":{"text":)").string(documents[ranks[i].index]).raw("}");
    out.raw("}");
  }
  u64 tokens = 0;
  for (const ResponseView& item : items)
    if (item.usage) tokens += item.usage->input_tokens;
  out.raw(R"(],"usage":{"prompt_tokens":)").number(tokens).raw(R"(,"total_tokens":)").number(tokens);
  out.raw(R"(},"meta":{"api_version":{"version":")").raw({&head.version, 1});
  return out.raw(R"("},"billed_units":{"search_units":1}}})").end();
}

}  // namespace fastqps::front

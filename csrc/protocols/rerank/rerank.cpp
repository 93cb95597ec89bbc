#include "protocols/rerank/rerank.h"

#include "protocols/tei/scores.h"
#include "transport/http/json_writer.h"

namespace fastqps::protocols {

void write_rerank_error(const transport::HttpError& error, transport::HttpErrorBody& body) {
  body.text = "{\"message\":";
  transport::append_json_string(body.text, error.message);
  body.text += ",\"detail\":";
  transport::append_json_string(body.text, error.message);
  body.text += '}';
}

namespace {

using service::AnsweredCall;
using transport::JsonWriter;
using Items = std::span<const ResponseView>;

size_t documents_room(const AnsweredCall& call, Items items) {
  constexpr size_t kAround = 256;  // the constant parts of the answer
  constexpr size_t kResult = 80 + JsonWriter::kIntegerBytes + JsonWriter::kFloatBytes;
  const size_t names = JsonWriter::string_room(call.model_version.size()) + sizeof(AnswerHead);
  return kAround + names + JsonWriter::string_room(call.context.size()) + items.size() * kResult +
         2 * JsonWriter::kIntegerBytes;
}

u8* write_documents(const AnsweredCall& call, Items items, u8* buffer) {
  JsonWriter out(buffer);
  const auto head = head_of<AnswerHead>(call.context);
  const std::string_view context = behind<AnswerHead>(call.context);
  const bool returns_documents = RankContext::returns_text(context);
  const std::vector<std::string_view> documents = RankContext::texts(context);
  std::vector<Rank> ranks = ranked(items);
  if (ranks.size() > head.results_max) ranks.resize(head.results_max);
  out.raw(R"({"id":")").raw(head.id.text).raw(R"(","model":)").string(call.model()).raw(R"(,"results":[)");
  for (size_t i = 0; i < ranks.size(); i++) {
    out.raw(i ? R"(,{"index":)" : R"({"index":)").number(u64(ranks[i].index));
    out.raw(R"(,"relevance_score":)").number(ranks[i].score);
    if (returns_documents) out.raw(R"(,"document":{"text":)").string(documents[ranks[i].index]).raw("}");
    out.raw("}");
  }
  const u64 tokens = metadata_of(items).tokens;
  out.raw(R"(],"usage":{"prompt_tokens":)").number(tokens).raw(R"(,"total_tokens":)").number(tokens);
  out.raw(R"(},"meta":{"api_version":{"version":")").raw({&head.version, 1});
  return out.raw(R"("},"billed_units":{"search_units":1}}})").end();
}
const service::PlainWriter<documents_room, write_documents, service::kRerankFields> documents_writer;

}  // namespace

const service::AnswerWriter& kDocumentsWriter = documents_writer;

}  // namespace fastqps::protocols

// The rerank API of Cohere, which Jina and vLLM have taken over.
#pragma once
#include <string_view>

#include "protocols/tei/http.h"
#include "transport/http/http_request.h"

namespace fastqps::protocols {

// The beginning of the context of an answer; a RankContext follows.
struct AnswerHead {
  u32 results_max = ~u32(0);  // top_n
  u8 forms = 0;               // of embeddings: bits, by kEmbeddingForms; 0: none were asked for
  char version = '1';         // of the API
  AnswerId id = {};
};
inline char version_of(const transport::CallInfo& info) {
  return info.http && info.http->path.starts_with("/v2") ? '2' : '1';
}

// {"message", "detail"}: Cohere's clients read the one, Jina's the other.
void write_rerank_error(const transport::HttpError& error, transport::HttpErrorBody& body);

// POST /v1/rerank and /v2/rerank: {"query", "documents"}.
class DocumentsReader final : public RankReader {
 public:
  DocumentsReader(service::ModelRoutes& routes, u32 items_max)
      : RankReader(routes, items_max, TextList::Form::kDocuments, kCohereApi) {}

 private:
  FieldRows fields() const override {
    static constexpr FieldRow kFields[] = {
        {"query", into<&DocumentsReader::query_>, kInput},
        {"documents", into<&DocumentsReader::texts_>, kInput},
        {"top_n", into<&DocumentsReader::top_n_>},
        {"return_documents", into<&DocumentsReader::options_, &JsonOptions::return_text>},
        {"rank_fields", by<&DocumentsReader::read_rank_fields>},
        {"max_tokens_per_doc", into<&DocumentsReader::tokens_per_document_>},
        {"max_chunks_per_doc", unused<u32>},  // a document is one chunk here, so any limit is kept
    };
    return kFields;
  }
  FieldRows api_fields() const override {
    return FieldRows(TeiJsonReader::api_fields()).first(2);  // the model, and whether texts are cut
  }
  void clear() override {
    RankReader::clear();
    top_n_ = tokens_per_document_ = 0;
  }
  FieldError check(const transport::CallInfo& info, ReasonText& reason) override {
    if (query_ && query_->empty()) return {"query", "0 characters, at least 1", FieldFault::kEmpty};
    if (const FieldError error = check_texts("documents", reason)) return error;
    const i32 route = requests_.find(kRanks, options_.text.model);
    if (const FieldError error = requests_.check_tokens("max_tokens_per_doc", tokens_per_document_, route, reason))
      return error;
    AnswerHead head{.version = version_of(info), .id = next_id()};
    if (top_n_) head.results_max = top_n_;
    context_ = bytes_of(head);
    RankContext::append(context_, options_.return_text, texts_.texts());
    return {};
  }
  FieldError read_rank_fields(const GivenField& field) {
    JsonArray names;
    if (field.value.get(names)) return {field.name, "must be an array of strings"};
    for (const JsonValue& name : names) {
      std::string_view text;
      if (name.get(text) || text != "text") return {field.name, "can only name the field text"};
    }
    return {};
  }

  u32 top_n_ = 0, tokens_per_document_ = 0;  // 0: not given
};

// They have the fields of Cohere's, Jina's and vLLM's: each client reads its own.
// {"id", "model", "results": [{"index", "relevance_score", "document": {"text"}}, …], "usage", "meta"}
extern const service::AnswerWriter& kDocumentsWriter;

}  // namespace fastqps::protocols

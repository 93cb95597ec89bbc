// The rerank API of Cohere, which Jina and vLLM have taken over.
#pragma once
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocols/tei/http.h"

namespace fastqps::protocols {

// The beginning of the context of an answer; a RankContext follows.
struct AnswerHead {
  u32 results_max = ~u32(0);  // top_n
  char version = '1';         // of the API
  char id[35] = "";           // of the answer, with a NUL

  std::string_view bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
  static AnswerHead of(std::string_view context) {
    AnswerHead head;
    std::memcpy(&head, context.data(), sizeof head);
    return head;
  }
  static std::string_view rest(std::string_view context) { return context.substr(sizeof(AnswerHead)); }
};

// {"message", "detail"}: Cohere's clients read the one, Jina's the other.
void write_rerank_error(const transport::HttpError& error, transport::HttpErrorBody& body);

// POST /v1/rerank and /v2/rerank: {"query", "documents"}, an item for each document.
class DocumentsReader final : public TeiJsonReader {
 public:
  DocumentsReader(service::ModelRoutes& routes, u32 items_max) : TeiJsonReader(routes, items_max), routes_(routes) {}

  u32 items() const override { return u32(documents_.size()); }
  FieldError item(u32 index, RequestView& view) override;
  std::string_view context() const override { return context_; }

 private:
  void clear() override;
  std::optional<FieldError> read_own(std::string_view name, const JsonValue& value, ReasonText& reason) override;
  FieldError check(const transport::CallInfo& info, ReasonText& reason) override;
  FieldError read_documents(const JsonValue& value, ReasonText& reason);
  FieldError read_rank_fields(const JsonValue& value);
  void write_context(const transport::CallInfo& info);

  service::ModelRoutes& routes_;
  std::optional<std::string_view> query_;
  bool documents_given_ = false;
  std::vector<std::string_view> documents_;
  u32 top_n_ = 0, tokens_per_document_ = 0;  // 0: not given
  std::string context_;
  u64 made_ = 0;  // requests so far, for their ids
};

// They have the fields of Cohere's, Jina's and vLLM's: each client reads its own.
// {"id", "model", "results": [{"index", "relevance_score", "document": {"text"}}, …], "usage", "meta"}
extern const service::AnswerWriter& kDocumentsWriter;

}  // namespace fastqps::protocols

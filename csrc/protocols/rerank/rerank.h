// The rerank API of Cohere, which Jina and vLLM have taken over.
#pragma once
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "contract/types.h"
#include "protocols/json/json_body.h"
#include "protocols/tei/text_request.h"
#include "service/formats/protocol.h"
#include "service/methods.h"
#include "transport/http/http_error.h"
#include "transport/http/http_routes.h"

namespace fastqps::protocols {

// What a rerank answer must know of its request, in front of the RankContext.
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

// Rerank requests: a query, and documents that are items.
class DocumentsReader final : public service::RequestReader {
 public:
  DocumentsReader(service::ModelRoutes& routes, u32 items_max)
      : routes_(routes), requests_(routes), items_max_(items_max) {}

  FieldError read(std::span<const u8> message, const transport::CallInfo& info, ReasonText& reason) override;
  u32 items() const override { return u32(documents_.size()); }
  FieldError item(u32 index, RequestView& view) override;
  std::string_view context() const override { return context_; }

 private:
  FieldError read_field(std::string_view name, const simdjson::dom::element& value, ReasonText& reason);
  FieldError read_documents(const simdjson::dom::element& value, ReasonText& reason);
  FieldError read_rank_fields(const simdjson::dom::element& value);
  FieldError check(ReasonText& reason);
  void write_context(const transport::CallInfo& info);

  service::ModelRoutes& routes_;
  TextRequests requests_;
  const u32 items_max_;
  JsonBody body_;
  TextOptions options_;
  RequestView base_;  // priority and timeout
  bool query_given_ = false, documents_given_ = false, return_documents_ = false;
  std::string_view query_;
  std::vector<std::string_view> documents_;
  u32 top_n_ = 0, tokens_per_document_ = 0;  // 0: not given
  std::string context_;
  u64 made_ = 0;  // requests so far, for the ids of their answers
  ReasonText item_reason_;
};

// They have the fields of Cohere's, Jina's and vLLM's: each client reads its own.
// {"id", "model", "results": [{"index", "relevance_score", "document": {"text"}}, …], "usage", "meta"}
class DocumentsWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  const service::FieldNames* fields() const override { return &service::kRerankFields; }
};

class Rerank final : public service::Protocol {
 public:
  Rerank(const service::ItemsPath& path, service::ModelRoutes& routes)
      : reader_(routes, path.items_max), method_(path, reader_, writer_, kRerank) {}

  void add_routes(transport::HttpRoutes& routes) override {
    for (const char* path : {"/v1/rerank", "/v2/rerank"})
      routes.add(
          {transport::HttpVerb::kPost, path, &method_, transport::MethodRole::kService, kRerank, write_rerank_error});
  }

 private:
  DocumentsReader reader_;
  const DocumentsWriter writer_;
  service::ItemsMethod method_;
};

}  // namespace fastqps::protocols

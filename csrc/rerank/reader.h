// Rerank requests: a query, and documents that are items.
#pragma once
#include <string>
#include <vector>

#include "json/json_body.h"
#include "predict/formats/request_reader.h"
#include "rerank/answer_head.h"
#include "tei/text_request.h"

namespace fastqps::front {

class DocumentsReader final : public RequestReader {
 public:
  DocumentsReader(ModelRoutes& routes, u32 items_max) : routes_(routes), requests_(routes), items_max_(items_max) {}

  FieldError read(std::span<const u8> message, const CallInfo& info, ReasonText& reason) override;
  u32 items() const override { return u32(documents_.size()); }
  FieldError item(u32 index, RequestView& view) override;
  std::string_view context() const override { return context_; }

 private:
  FieldError read_field(std::string_view name, const simdjson::dom::element& value, ReasonText& reason);
  FieldError read_documents(const simdjson::dom::element& value, ReasonText& reason);
  FieldError read_rank_fields(const simdjson::dom::element& value);
  FieldError check(ReasonText& reason);
  void write_context(const CallInfo& info);

  ModelRoutes& routes_;
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

}  // namespace fastqps::front

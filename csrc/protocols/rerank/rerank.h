// The rerank API of Cohere, which Jina and vLLM have taken over.
#pragma once
#include <cstdio>
#include <cstring>
#include <optional>
#include <string_view>

#include "core/clock.h"
#include "protocols/tei/http.h"
#include "transport/http/http_request.h"

namespace fastqps::protocols {

// The beginning of the context of an answer; a RankContext follows.
struct AnswerHead {
  u32 results_max = ~u32(0);  // top_n
  u8 forms = 0;               // of embeddings: bits, by kEmbeddingForms; 0: none were asked for
  char version = '1';         // of the API
  char id[34] = "";           // of the answer, with a NUL

  // The API's version, and an id. made: requests so far.
  void begin(const transport::CallInfo& info, u64 made) {
    version = info.http && info.http->path.starts_with("/v2") ? '2' : '1';
    std::snprintf(id, sizeof id, "%016llx%08llx", (unsigned long long)now_ns(), (unsigned long long)made);
  }
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

// POST /v1/rerank and /v2/rerank: {"query", "documents"}.
class DocumentsReader final : public RankReader {
 public:
  DocumentsReader(service::ModelRoutes& routes, u32 items_max)
      : RankReader(routes, items_max, "documents", kCohereOptions) {}

 private:
  void clear() override {
    RankReader::clear();
    top_n_ = tokens_per_document_ = 0;
  }
  std::optional<FieldError> read_own(std::string_view name, const JsonValue& element, ReasonText& reason) override {
    if (name == "documents") return read_documents(element, reason);
    if (name == "query") return read_text("query", element, &query_.emplace());
    if (element.is_null()) return FieldError{};  // clients send null for what is not set
    const OptionValue value = option_value(element);
    if (name == "model") return read_text("model", element, &options_.text.model);
    if (name == "top_n") return FieldError{"top_n", service::to_count(value, &top_n_)};
    if (name == "return_documents")
      return FieldError{"return_documents", service::to_bool(value, &options_.return_text)};
    if (name == "truncate")
      return FieldError{"truncate", service::to_bool(value, &options_.text.truncation.asked.emplace())};
    if (name == "rank_fields") return read_rank_fields(element);
    if (name == "max_tokens_per_doc")
      return FieldError{"max_tokens_per_doc", service::to_count(value, &tokens_per_document_)};
    u32 chunks;  // a document is one chunk here, so any limit is kept
    if (name == "max_chunks_per_doc") return FieldError{"max_chunks_per_doc", service::to_count(value, &chunks)};
    if (const auto error = set_call_option(name, value, options_.base)) return *error;
    return FieldError{"", reason.print("'%.*s' is not a field of this request", shown(name), name.data())};
  }
  FieldError check(const transport::CallInfo& info, ReasonText& reason) override {
    if (query_ && query_->empty()) return {"query", "0 characters, at least 1", FieldFault::kEmpty};
    if (const FieldError error = check_texts(reason)) return error;
    const i32 route = requests_.find(kRanks, options_.text.model);
    if (const FieldError error = requests_.check_tokens("max_tokens_per_doc", tokens_per_document_, route, reason))
      return error;
    AnswerHead head;
    if (top_n_) head.results_max = top_n_;
    head.begin(info, made_++);
    context_ = head.bytes();
    RankContext::append(context_, options_.return_text, texts_);
    return {};
  }
  FieldError read_documents(const JsonValue& value, ReasonText& reason) {
    constexpr const char* kForm = "must be an array of strings, or of objects with a text";
    texts_given_ = true;
    texts_.clear();
    JsonArray values;
    if (value.get(values)) return {"documents", kForm};
    for (const JsonValue& each : values) {
      if (texts_.size() == items_max_)
        return {"documents", reason.print("more than %u documents, which is the most", items_max_),
                FieldFault::kTooMany};
      std::string_view& text = texts_.emplace_back();
      const auto error = each.is_object() ? each["text"].get(text) : each.get(text);
      if (error)
        return {"documents",
                reason.print("element %zu is neither a string nor an object with a text", texts_.size() - 1)};
    }
    return {};
  }
  FieldError read_rank_fields(const JsonValue& value) {
    JsonArray names;
    if (value.get(names)) return {"rank_fields", "must be an array of strings"};
    for (const JsonValue& name : names) {
      std::string_view text;
      if (name.get(text) || text != "text") return {"rank_fields", "can only name the field text"};
    }
    return {};
  }

  u32 top_n_ = 0, tokens_per_document_ = 0;  // 0: not given
  u64 made_ = 0;                             // requests so far, for their ids
};

// They have the fields of Cohere's, Jina's and vLLM's: each client reads its own.
// {"id", "model", "results": [{"index", "relevance_score", "document": {"text"}}, …], "usage", "meta"}
extern const service::AnswerWriter& kDocumentsWriter;

}  // namespace fastqps::protocols

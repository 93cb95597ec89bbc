#include "protocols/rerank/rerank.h"

#include <cstdio>

#include "core/clock.h"
#include "protocols/tei/scores.h"
#include "transport/http/http_request.h"
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

FieldError read_count(const char* field, const OptionValue& value, u32* count) {
  return {field, service::to_count(value, count)};
}

}  // namespace

void DocumentsReader::clear() {
  query_.reset();
  documents_given_ = false;
  documents_.clear();
  top_n_ = tokens_per_document_ = 0;
}

std::optional<FieldError> DocumentsReader::read_own(std::string_view name, const JsonValue& element,
                                                    ReasonText& reason) {
  if (name == "documents") return read_documents(element, reason);
  if (name == "query") return read_text("query", element, &query_.emplace());
  if (element.is_null()) return FieldError{};  // clients send null for what is not set
  const OptionValue value = option_value(element);
  if (name == "model") return read_text("model", element, &options_.text.model);
  if (name == "top_n") return read_count("top_n", value, &top_n_);
  if (name == "return_documents") return FieldError{"return_documents", service::to_bool(value, &options_.return_text)};
  if (name == "truncate")
    return FieldError{"truncate", service::to_bool(value, &options_.text.truncation.asked.emplace())};
  if (name == "rank_fields") return read_rank_fields(element);
  if (name == "max_tokens_per_doc") return read_count("max_tokens_per_doc", value, &tokens_per_document_);
  u32 chunks;  // a document is one chunk here, so any limit is kept
  if (name == "max_chunks_per_doc") return read_count("max_chunks_per_doc", value, &chunks);
  if (const auto error = set_call_option(name, value, options_.base)) return *error;
  return FieldError{"", reason.print("'%.*s' is not a field of this request", shown(name), name.data())};
}

FieldError DocumentsReader::read_documents(const JsonValue& value, ReasonText& reason) {
  constexpr const char* kForm = "must be an array of strings, or of objects with a text";
  documents_given_ = true;
  documents_.clear();
  JsonArray values;
  if (value.get(values)) return {"documents", kForm};
  for (const JsonValue& each : values) {
    if (documents_.size() == items_max_)
      return {"documents", reason.print("more than %u documents, which is the most", items_max_), FieldFault::kTooMany};
    std::string_view& text = documents_.emplace_back();
    const auto error = each.is_object() ? each["text"].get(text) : each.get(text);
    if (error)
      return {"documents",
              reason.print("element %zu is neither a string nor an object with a text", documents_.size() - 1)};
  }
  return {};
}

FieldError DocumentsReader::read_rank_fields(const JsonValue& value) {
  JsonArray names;
  if (value.get(names)) return {"rank_fields", "must be an array of strings"};
  for (const JsonValue& name : names) {
    std::string_view text;
    if (name.get(text) || text != "text") return {"rank_fields", "can only name the field text"};
  }
  return {};
}

FieldError DocumentsReader::check(const transport::CallInfo& info, ReasonText& reason) {
  if (!query_) return {"query", "must be given"};
  if (query_->empty()) return {"query", "0 characters, at least 1", FieldFault::kEmpty};
  if (!documents_given_) return {"documents", "must be given"};
  if (documents_.empty()) return {"documents", "0 documents, at least 1", FieldFault::kEmpty};
  if (const FieldError error = requests_.check_ranks(options_.text.model, reason)) return error;
  const i32 route = requests_.ranking(options_.text.model);
  const u32 tokens = route < 0 ? 0 : routes_[u32(route)].max_input_tokens;
  if (tokens_per_document_ && tokens_per_document_ < tokens)
    return {"max_tokens_per_doc",
            reason.print("%u, must be at least %u: documents are cut at the model's own limit alone",
                         tokens_per_document_, tokens)};
  write_context(info);
  return {};
}

void DocumentsReader::write_context(const transport::CallInfo& info) {
  AnswerHead head;
  if (top_n_) head.results_max = top_n_;
  head.version = info.http && info.http->path.starts_with("/v2") ? '2' : '1';
  std::snprintf(head.id, sizeof head.id, "%016llx%08llx", (unsigned long long)now_ns(), (unsigned long long)made_++);
  context_ = head.bytes();
  RankContext::append(context_, options_.return_text, documents_);
}

FieldError DocumentsReader::item(u32 index, RequestView& view) {
  view = options_.base;
  return requests_.rerank("documents", *query_, documents_[index], options_.text, view, item_reason_);
}

namespace {

class DocumentsWriter final : public service::AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, Items items) const override {
    constexpr size_t kAround = 256;  // the constant parts of the answer
    constexpr size_t kResult = 80 + JsonWriter::kIntegerBytes + JsonWriter::kFloatBytes;
    const size_t names = JsonWriter::string_room(call.model_version.size()) + sizeof(AnswerHead);
    return kAround + names + JsonWriter::string_room(call.context.size()) + items.size() * kResult +
           2 * JsonWriter::kIntegerBytes;
  }

  u8* write(const AnsweredCall& call, Items items, u8* buffer) const override {
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
  const service::FieldNames* fields() const override { return &service::kRerankFields; }
};
const DocumentsWriter documents_writer;

}  // namespace

const service::AnswerWriter& kDocumentsWriter = documents_writer;

}  // namespace fastqps::protocols

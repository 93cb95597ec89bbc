// The request bodies of text-embeddings-inference's HTTP API.
#pragma once
#include <string>
#include <vector>

#include "protocols/json/json_body.h"
#include "protocols/json/text_input.h"
#include "protocols/tei/text_request.h"
#include "service/formats/protocol.h"

namespace fastqps::protocols {

// The options of TEI's requests over HTTP, by their names in JSON.
struct JsonOptions {
  TextOptions text;
  RequestView base;  // priority and timeout
  bool return_text = false;
};

// Reads one of a request's fields. TEI ignores fields that it does not know, so they are ignored here.
FieldError read_json_option(std::string_view name, const simdjson::dom::element& value, JsonOptions& options);

// What the readers share: a body's fields, each read by the reader itself or as an option.
class TeiJsonReader : public service::RequestReader {
 public:
  FieldError read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) final;

 protected:
  TeiJsonReader(service::ModelRoutes& routes, u32 items_max) : requests_(routes), items_max_(items_max) {}

  // Forgets the last request.
  virtual void clear() = 0;
  // Reads a field of this request alone. *known: whether it is one.
  virtual FieldError read_own(std::string_view name, const simdjson::dom::element& value, bool* known,
                              ReasonText& reason) = 0;
  // After all fields.
  virtual FieldError check(ReasonText& reason) = 0;
  FieldError read_text(const char* field, const simdjson::dom::element& value, std::string_view* text);
  // An array of strings, of which there may be `most`.
  FieldError read_texts(const char* field, const simdjson::dom::element& value, u32 most,
                        std::vector<std::string_view>& texts, ReasonText& reason);
  FieldError read_options(const simdjson::dom::object& fields);

  TextRequests requests_;
  const u32 items_max_;
  JsonOptions options_;
  ReasonText item_reason_;

 private:
  JsonBody body_;
};

// POST /embed and /embed_sparse: {"inputs"}, an item for each.
class EmbedJsonReader final : public TeiJsonReader {
 public:
  // make: what turns a text into an item.
  using Make = FieldError (TextRequests::*)(const TextOptions&, RequestView&, ReasonText&);
  EmbedJsonReader(service::ModelRoutes& routes, u32 items_max, Make make = &TextRequests::embed)
      : TeiJsonReader(routes, items_max), make_(make), inputs_("inputs", items_max) {}

  u32 items() const override { return inputs_.items(); }
  FieldError item(u32 index, RequestView& view) override;

 private:
  void clear() override { inputs_.clear(); }
  FieldError read_own(std::string_view name, const simdjson::dom::element& value, bool* known,
                      ReasonText& reason) override;
  FieldError check(ReasonText&) override {
    return inputs_.given() ? FieldError{} : FieldError{"inputs", "must be given"};
  }

  const Make make_;
  TextInput inputs_;
};

// POST /similarity: {"inputs": {"source_sentence", "sentences"}, "parameters"}. The first item is the source.
class SimilarityReader final : public TeiJsonReader {
 public:
  SimilarityReader(service::ModelRoutes& routes, u32 items_max) : TeiJsonReader(routes, items_max) {}

  u32 items() const override { return u32(1 + sentences_.size()); }
  FieldError item(u32 index, RequestView& view) override;

 private:
  void clear() override;
  FieldError read_own(std::string_view name, const simdjson::dom::element& value, bool* known,
                      ReasonText& reason) override;
  FieldError check(ReasonText& reason) override;

  bool given_ = false;
  std::string_view source_;
  std::vector<std::string_view> sentences_;
};

// POST /predict: {"inputs"}, a text, a pair, or an array of arrays with one or two texts.
class PredictJsonReader final : public TeiJsonReader {
 public:
  static constexpr char kOne = '1', kBatch = 'b';  // the context

  PredictJsonReader(service::ModelRoutes& routes, u32 items_max) : TeiJsonReader(routes, items_max) {}

  u32 items() const override { return u32(sequences_.size()); }
  FieldError item(u32 index, RequestView& view) override;
  std::string_view context() const override { return {&form_, 1}; }

 private:
  // One or two texts.
  struct Sequence {
    std::string_view texts[2];
    u32 count;
  };
  void clear() override;
  FieldError read_own(std::string_view name, const simdjson::dom::element& value, bool* known,
                      ReasonText& reason) override;
  FieldError check(ReasonText&) override;
  FieldError read_inputs(const simdjson::dom::element& value, ReasonText& reason);
  FieldError read_sequence(const simdjson::dom::array& texts, ReasonText& reason);

  char form_ = kOne;
  std::vector<Sequence> sequences_;
};

// POST /rerank: {"query", "texts"}, an item for each text.
class RerankJsonReader final : public TeiJsonReader {
 public:
  RerankJsonReader(service::ModelRoutes& routes, u32 items_max) : TeiJsonReader(routes, items_max) {}

  u32 items() const override { return u32(texts_.size()); }
  FieldError item(u32 index, RequestView& view) override;
  std::string_view context() const override { return context_; }

 private:
  void clear() override;
  FieldError read_own(std::string_view name, const simdjson::dom::element& value, bool* known,
                      ReasonText& reason) override;
  FieldError check(ReasonText& reason) override;

  bool query_given_ = false, texts_given_ = false;
  std::string_view query_;
  std::vector<std::string_view> texts_;
  std::string context_;
};

}  // namespace fastqps::protocols

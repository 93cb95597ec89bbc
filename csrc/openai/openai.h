// OpenAI's API. GET /v1/models is a rare route (fastqps/frontdoor/rare_calls.py).
#pragma once
#include "http/http_routes.h"
#include "json/text_input.h"
#include "openai/common.h"
#include "openai/completions.h"
#include "predict/formats/answer_writer.h"
#include "predict/formats/protocol.h"
#include "predict/formats/request_reader.h"
#include "predict/items_method.h"

namespace fastqps::front {

// POST /v1/embeddings.
class EmbeddingsReader final : public RequestReader {
 public:
  explicit EmbeddingsReader(u32 items_max) : input_("input", items_max) {}

  FieldError read(std::span<const u8> message, const CallInfo& info, ReasonText& reason) override;
  u32 items() const override { return input_.items(); }
  FieldError item(u32 index, RequestView& view) override {
    view = base_;
    input_.item(index, view);
    return {};
  }
  Output wants() const override { return Output::kEmbedding; }
  std::string_view context() const override { return {&format_, 1}; }

 private:
  FieldError read_field(std::string_view name, const simdjson::dom::element& value, ReasonText& reason);

  JsonBody body_;
  TextInput input_;
  RequestView base_;
  OptionLists lists_;
  char format_ = 'f';  // of the vectors: 'f': an array of numbers, 'b': base64 of float32
};

class EmbeddingsWriter final : public AnswerWriter {
 public:
  size_t room(const AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  const FieldNames* fields() const override { return &kEmbeddingsFields; }
};

class OpenAi final : public Protocol {
 public:
  explicit OpenAi(const ItemsPath& path)
      : embeddings_reader_(path.items_max),
        completions_reader_(path.items_max),
        embeddings_(path, embeddings_reader_, embeddings_writer_, kEmbeddings),
        completions_(path, completions_reader_, completions_writer_, kCompletions) {}

  void add_routes(HttpRoutes& routes) override {
    constexpr auto kService = MethodRole::kService;
    for (const char* path : {"/v1/embeddings", "/embeddings"})  // the second: as text-embeddings-inference has it
      routes.add({HttpVerb::kPost, path, &embeddings_, kService, kEmbeddings, write_openai_error});
    routes.add({HttpVerb::kPost, "/v1/completions", &completions_, kService, kCompletions, write_openai_error});
  }

 private:
  EmbeddingsReader embeddings_reader_;
  CompletionsReader completions_reader_;
  const EmbeddingsWriter embeddings_writer_;
  const CompletionsWriter completions_writer_;
  ItemsMethod embeddings_, completions_;
};

}  // namespace fastqps::front

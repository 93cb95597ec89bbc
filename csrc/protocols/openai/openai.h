// OpenAI's API. GET /v1/models is a rare route (fastqps/frontdoor/rare_calls.py).
#pragma once
#include "protocols/json/text_input.h"
#include "protocols/openai/common.h"
#include "protocols/openai/completions.h"
#include "service/formats/protocol.h"
#include "service/methods.h"
#include "transport/http/http_routes.h"

namespace fastqps::protocols {

// POST /v1/embeddings.
class EmbeddingsReader final : public service::RequestReader {
 public:
  explicit EmbeddingsReader(u32 items_max) : input_("input", items_max) {}

  FieldError read(std::span<const u8> message, const transport::CallInfo& info, ReasonText& reason) override;
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
  service::OptionLists lists_;
  char format_ = 'f';  // of the vectors: 'f': an array of numbers, 'b': base64 of float32
};

class EmbeddingsWriter final : public service::AnswerWriter {
 public:
  size_t room(const service::AnsweredCall& call, std::span<const ResponseView> items) const override;
  u8* write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override;
  const service::FieldNames* fields() const override { return &service::kEmbeddingsFields; }
};

class OpenAi final : public service::Protocol {
 public:
  explicit OpenAi(const service::ItemsPath& path)
      : embeddings_reader_(path.items_max),
        completions_reader_(path.items_max),
        embeddings_(path, embeddings_reader_, embeddings_writer_, kEmbeddings),
        completions_(path, completions_reader_, completions_writer_, kCompletions) {}

  void add_routes(transport::HttpRoutes& routes) override {
    constexpr auto kService = transport::MethodRole::kService;
    for (const char* path : {"/v1/embeddings", "/embeddings"})  // the second: as text-embeddings-inference has it
      routes.add({transport::HttpVerb::kPost, path, &embeddings_, kService, kEmbeddings, write_openai_error});
    routes.add(
        {transport::HttpVerb::kPost, "/v1/completions", &completions_, kService, kCompletions, write_openai_error});
  }

 private:
  EmbeddingsReader embeddings_reader_;
  CompletionsReader completions_reader_;
  const EmbeddingsWriter embeddings_writer_;
  const CompletionsWriter completions_writer_;
  service::ItemsMethod embeddings_, completions_;
};

}  // namespace fastqps::protocols

// OpenAI's API. GET /v1/models is a rare route (fastqps/frontdoor/rare_calls.py).
#pragma once
#include "http/http_routes.h"
#include "openai/completions.h"
#include "openai/embeddings.h"
#include "openai/openai_error.h"
#include "predict/formats/protocol.h"
#include "predict/items_method.h"

namespace fastqps::front {

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

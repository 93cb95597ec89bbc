// The rerank API of Cohere, which Jina and vLLM have taken over.
#pragma once
#include "http/http_routes.h"
#include "predict/formats/protocol.h"
#include "predict/items_method.h"
#include "rerank/reader.h"
#include "rerank/rerank_error.h"
#include "rerank/writer.h"

namespace fastqps::front {

class Rerank final : public Protocol {
 public:
  Rerank(const ItemsPath& path, ModelRoutes& routes)
      : reader_(routes, path.items_max), method_(path, reader_, writer_, kRerank) {}

  void add_routes(HttpRoutes& routes) override {
    for (const char* path : {"/v1/rerank", "/v2/rerank"})
      routes.add({HttpVerb::kPost, path, &method_, MethodRole::kService, kRerank, write_rerank_error});
  }

 private:
  DocumentsReader reader_;
  const DocumentsWriter writer_;
  ItemsMethod method_;
};

}  // namespace fastqps::front

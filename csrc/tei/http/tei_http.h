// The HTTP API of text-embeddings-inference. /info, /tokenize and /decode are rare routes
// (fastqps/frontdoor/text_embeddings_http.py).
#pragma once
#include "http/http_routes.h"
#include "predict/formats/protocol.h"
#include "predict/items_method.h"
#include "tei/http/default_method.h"
#include "tei/http/readers.h"
#include "tei/http/tei_error.h"
#include "tei/http/unserved_method.h"
#include "tei/http/writers.h"

namespace fastqps::front {

class TeiHttp final : public Protocol {
 public:
  TeiHttp(const ItemsPath& path, ModelRoutes& routes)
      : embed_reader_(routes, path.items_max),
        sparse_reader_(routes, path.items_max, &TextRequests::embed_sparse),
        similarity_reader_(routes, path.items_max),
        predict_reader_(routes, path.items_max),
        rerank_reader_(routes, path.items_max),
        embed_(path, embed_reader_, embed_writer_, kTeiEmbed),
        sparse_(path, sparse_reader_, sparse_writer_, kTeiEmbed),
        similarity_(path, similarity_reader_, similarity_writer_, kTeiEmbed),
        predict_(path, predict_reader_, predict_writer_, kTeiPredict),
        rerank_(path, rerank_reader_, rerank_writer_, kTeiRerank),
        default_(routes, {embed_, sparse_, similarity_, predict_, rerank_}),
        all_(path, "not served here: POST /embed, or call Predict where the model makes a vector of each token") {}

  void add_routes(HttpRoutes& routes) override {
    const auto add = [&](const char* pattern, Method& method, Rpc rpc) {
      routes.add({HttpVerb::kPost, pattern, &method, MethodRole::kService, rpc, write_tei_error});
    };
    add("/embed", embed_, kTeiEmbed);
    add("/similarity", similarity_, kTeiEmbed);
    add("/predict", predict_, kTeiPredict);
    add("/rerank", rerank_, kTeiRerank);
    add("/", default_, kOther);
    add("/invocations", default_, kOther);  // SageMaker's name of it
    add("/embed_sparse", sparse_, kTeiEmbed);
    add("/embed_all", all_, kTeiEmbed);
  }

 private:
  EmbedJsonReader embed_reader_, sparse_reader_;
  SimilarityReader similarity_reader_;
  PredictJsonReader predict_reader_;
  RerankJsonReader rerank_reader_;
  const EmbedJsonWriter embed_writer_;
  const EmbedSparseJsonWriter sparse_writer_;
  const SimilarityWriter similarity_writer_;
  const PredictJsonWriter predict_writer_;
  const RerankJsonWriter rerank_writer_;
  ItemsMethod embed_, sparse_, similarity_, predict_, rerank_;
  DefaultMethod default_;
  UnservedMethod all_;
};

}  // namespace fastqps::front

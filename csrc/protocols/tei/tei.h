// The methods of tei.v1 that are answered in the loop. The others are rare: Info, Tokenize, and those that no model
// has (fastqps/frontdoor/text_embeddings.py).
#pragma once
#include "protocols/tei/readers.h"
#include "protocols/tei/writers.h"
#include "service/formats/protocol.h"
#include "service/methods.h"

namespace fastqps::protocols {

class Tei final : public service::Protocol {
 public:
  Tei(const service::ItemsPath& path, service::ModelRoutes& routes)
      : embed_reader_(routes, false),
        sparse_reader_(routes, true),
        predict_reader_(routes, false),
        pair_reader_(routes, true),
        rerank_reader_(routes, path.items_max),
        rerank_stream_reader_(routes),
        embed_(path, embed_reader_, embed_writer_, kTeiEmbed),
        sparse_(path, sparse_reader_, sparse_writer_, kTeiEmbed),
        predict_(path, predict_reader_, predict_writer_, kTeiPredict),
        pair_(path, pair_reader_, predict_writer_, kTeiPredict),
        rerank_(path, rerank_reader_, rerank_writer_, kTeiRerank),
        embed_stream_(path, embed_reader_, embed_writer_, kTeiEmbed, service::GroupKind::kInOrder),
        sparse_stream_(path, sparse_reader_, sparse_writer_, kTeiEmbed, service::GroupKind::kInOrder),
        predict_stream_(path, predict_reader_, predict_writer_, kTeiPredict, service::GroupKind::kInOrder),
        pair_stream_(path, pair_reader_, predict_writer_, kTeiPredict, service::GroupKind::kInOrder),
        rerank_stream_(path, rerank_stream_reader_, rerank_writer_, kTeiRerank, service::GroupKind::kGathered) {}

  void add_methods(transport::MethodTable& table) override {
    const transport::MethodRow rows[] = {
        {"/tei.v1.Embed/Embed", transport::MethodKind::kUnary, &embed_, transport::MethodRole::kService, kTeiEmbed},
        {"/tei.v1.Embed/EmbedStream", transport::MethodKind::kBidi, &embed_stream_, transport::MethodRole::kService,
         kTeiEmbed},
        {"/tei.v1.Embed/EmbedSparse", transport::MethodKind::kUnary, &sparse_, transport::MethodRole::kService,
         kTeiEmbed},
        {"/tei.v1.Embed/EmbedSparseStream", transport::MethodKind::kBidi, &sparse_stream_,
         transport::MethodRole::kService, kTeiEmbed},
        {"/tei.v1.Predict/Predict", transport::MethodKind::kUnary, &predict_, transport::MethodRole::kService,
         kTeiPredict},
        {"/tei.v1.Predict/PredictPair", transport::MethodKind::kUnary, &pair_, transport::MethodRole::kService,
         kTeiPredict},
        {"/tei.v1.Predict/PredictStream", transport::MethodKind::kBidi, &predict_stream_,
         transport::MethodRole::kService, kTeiPredict},
        {"/tei.v1.Predict/PredictPairStream", transport::MethodKind::kBidi, &pair_stream_,
         transport::MethodRole::kService, kTeiPredict},
        {"/tei.v1.Rerank/Rerank", transport::MethodKind::kUnary, &rerank_, transport::MethodRole::kService, kTeiRerank},
        {"/tei.v1.Rerank/RerankStream", transport::MethodKind::kBidi, &rerank_stream_, transport::MethodRole::kService,
         kTeiRerank}};
    for (const transport::MethodRow& row : rows) table.add(row);
  }

 private:
  EmbedReader embed_reader_, sparse_reader_;
  PredictReader predict_reader_, pair_reader_;
  RerankReader rerank_reader_;
  RerankStreamReader rerank_stream_reader_;
  const EmbedWriter embed_writer_;
  const EmbedSparseWriter sparse_writer_;
  const PredictWriter predict_writer_;
  const RerankWriter rerank_writer_;
  service::ItemsMethod embed_, sparse_, predict_, pair_, rerank_;
  service::StreamMethod embed_stream_, sparse_stream_, predict_stream_, pair_stream_, rerank_stream_;
};

}  // namespace fastqps::protocols

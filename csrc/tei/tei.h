// The methods of tei.v1 that are answered in the loop. The others are rare: Info, Tokenize, and those that no model
// has (fastqps/frontdoor/text_embeddings.py).
#pragma once
#include "predict/formats/protocol.h"
#include "predict/stream_method.h"
#include "tei/readers.h"
#include "tei/writers.h"

namespace fastqps::front {

class Tei final : public Protocol {
 public:
  Tei(const ItemsPath& path, ModelRoutes& routes)
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
        embed_stream_(path, embed_reader_, embed_writer_, kTeiEmbed, GroupKind::kInOrder),
        sparse_stream_(path, sparse_reader_, sparse_writer_, kTeiEmbed, GroupKind::kInOrder),
        predict_stream_(path, predict_reader_, predict_writer_, kTeiPredict, GroupKind::kInOrder),
        pair_stream_(path, pair_reader_, predict_writer_, kTeiPredict, GroupKind::kInOrder),
        rerank_stream_(path, rerank_stream_reader_, rerank_writer_, kTeiRerank, GroupKind::kGathered) {}

  void add_methods(MethodTable& table) override {
    const MethodRow rows[] = {
        {"/tei.v1.Embed/Embed", MethodKind::kUnary, &embed_, MethodRole::kService, kTeiEmbed},
        {"/tei.v1.Embed/EmbedStream", MethodKind::kBidi, &embed_stream_, MethodRole::kService, kTeiEmbed},
        {"/tei.v1.Embed/EmbedSparse", MethodKind::kUnary, &sparse_, MethodRole::kService, kTeiEmbed},
        {"/tei.v1.Embed/EmbedSparseStream", MethodKind::kBidi, &sparse_stream_, MethodRole::kService, kTeiEmbed},
        {"/tei.v1.Predict/Predict", MethodKind::kUnary, &predict_, MethodRole::kService, kTeiPredict},
        {"/tei.v1.Predict/PredictPair", MethodKind::kUnary, &pair_, MethodRole::kService, kTeiPredict},
        {"/tei.v1.Predict/PredictStream", MethodKind::kBidi, &predict_stream_, MethodRole::kService, kTeiPredict},
        {"/tei.v1.Predict/PredictPairStream", MethodKind::kBidi, &pair_stream_, MethodRole::kService, kTeiPredict},
        {"/tei.v1.Rerank/Rerank", MethodKind::kUnary, &rerank_, MethodRole::kService, kTeiRerank},
        {"/tei.v1.Rerank/RerankStream", MethodKind::kBidi, &rerank_stream_, MethodRole::kService, kTeiRerank}};
    for (const MethodRow& row : rows) table.add(row);
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
  ItemsMethod embed_, sparse_, predict_, pair_, rerank_;
  StreamMethod embed_stream_, sparse_stream_, predict_stream_, pair_stream_, rerank_stream_;
};

}  // namespace fastqps::front

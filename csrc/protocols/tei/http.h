// The API of text-embeddings-inference over HTTP.
#pragma once
#include "protocols/tei/http_requests.h"
#include "transport/http/http_request.h"

namespace fastqps::protocols {

// {"error", "error_type"}
void write_tei_error(const transport::HttpError& error, transport::HttpErrorBody& body);

// [[0.5, …], …]
extern const service::AnswerWriter& kEmbedJsonWriter;
// [[{"index": 7, "value": 0.5}, …], …]
extern const service::AnswerWriter& kSparseJsonWriter;
// [[[0.5, …], …], …]: a vector for each token.
extern const service::AnswerWriter& kTokenVectorsJsonWriter;
// [0.9, …]: the cosines of the first embedding with each of the others.
extern const service::AnswerWriter& kSimilarityWriter;
// [{"score", "label"}, …], or of a batch an array of those.
extern const service::AnswerWriter& kPredictJsonWriter;
// [{"entity_group", "score", "word", "start", "end"}, …], or of a batch an array of those. Of single tokens, "entity"
// is in the place of "entity_group". Its context is an EntitiesHead, and a RankContext of the texts.
extern const service::AnswerWriter& kEntitiesWriter;
// [{"index", "text", "score"}, …]. Its context is a RankContext.
extern const service::AnswerWriter& kRerankJsonWriter;

// POST /: bodies of the route that fits the default model. Clients that know only a model's address call it.
class DefaultReader final : public ChoosingReader {
 public:
  struct Choices {
    const JsonFormat embed, sparse, similarity, predict, entities, rerank;
  };
  DefaultReader(service::ModelRoutes& routes, const Choices& choices) : routes_(routes), choices_(choices) {}

 private:
  const JsonFormat& choose(const JsonObject& body) override {
    const i32 route = routes_.find({});
    if (route >= 0 && routes_[u32(route)].task == Task::kEmbedSparse) return choices_.sparse;
    if (route >= 0 && routes_[u32(route)].task == Task::kClassifyTokens) return choices_.entities;
    if (route < 0 || routes_[u32(route)].task != Task::kClassify) {
      JsonValue inputs;
      return !body["inputs"].get(inputs) && inputs.is_object() ? choices_.similarity : choices_.embed;
    }
    return routes_[u32(route)].dimensions == 1 ? choices_.rerank : choices_.predict;
  }

  service::ModelRoutes& routes_;
  const Choices choices_;
};

}  // namespace fastqps::protocols

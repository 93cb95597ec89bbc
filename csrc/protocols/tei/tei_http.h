// The HTTP API of text-embeddings-inference. /info, /tokenize and /decode are rare routes
// (fastqps/frontdoor/text_embeddings_http.py).
#pragma once
#include "protocols/json/json_body.h"
#include "protocols/tei/http_readers.h"
#include "protocols/tei/http_writers.h"
#include "service/formats/protocol.h"
#include "service/methods.h"
#include "service/tables/routes.h"
#include "transport/http/http_error.h"
#include "transport/http/http_routes.h"

namespace fastqps::protocols {

// {"error", "error_type"}
void write_tei_error(const transport::HttpError& error, transport::HttpErrorBody& body);

// A method of the API that no model here can answer.
class UnservedMethod final : public transport::Method {
 public:
  UnservedMethod(const service::ItemsPath& path, const char* why) : path_(path), why_(why) {}

  transport::Took on_message(transport::CallId call, std::span<const u8>, const transport::CallInfo& info) override {
    path_.attachment->finish(call, {.code = StatusCode::kFailedPrecondition, .message = why_});
    path_.counts.call(0, kTeiEmbed, StatusCode::kFailedPrecondition, info.receive_ns);
    return transport::Took::kAll;
  }

 private:
  const service::ItemsPath path_;
  const char* const why_;
};

// POST /: the method that fits the default model. Clients that know only a model's address call it.
class DefaultMethod final : public transport::Method {
 public:
  struct Choices {
    service::ItemsMethod &embed, &sparse, &similarity, &predict, &rerank;
  };
  DefaultMethod(service::ModelRoutes& routes, const Choices& choices) : routes_(routes), choices_(choices) {}

  transport::Took on_message(transport::CallId call, std::span<const u8> message,
                             const transport::CallInfo& info) override {
    return choose(message, info.user).on_message(call, message, info);
  }
  transport::Gone on_gone(transport::CallId call, u64 user) override {
    return choices_.embed.on_gone(call, user);
  }  // all do the same

 private:
  service::ItemsMethod& choose(std::span<const u8> message, u64 user) {
    for (service::ItemsMethod* method :
         {&choices_.embed, &choices_.sparse, &choices_.similarity, &choices_.predict, &choices_.rerank})
      if (method->began(user)) return *method;
    const i32 route = routes_.find({});
    if (route >= 0 && routes_[u32(route)].task == Task::kEmbedSparse) return choices_.sparse;
    if (route < 0 || routes_[u32(route)].task != Task::kClassify)
      return asks_for_similarity(message) ? choices_.similarity : choices_.embed;
    return routes_[u32(route)].dimensions == 1 ? choices_.rerank : choices_.predict;
  }
  bool asks_for_similarity(std::span<const u8> message) {
    ReasonText reason;
    simdjson::dom::object request;
    simdjson::dom::element inputs;
    return !body_.parse(message, &request, reason) && !request["inputs"].get(inputs) && inputs.is_object();
  }

  service::ModelRoutes& routes_;
  const Choices choices_;
  JsonBody body_;
};

class TeiHttp final : public service::Protocol {
 public:
  TeiHttp(const service::ItemsPath& path, service::ModelRoutes& routes)
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

  void add_routes(transport::HttpRoutes& routes) override {
    const auto add = [&](const char* pattern, transport::Method& method, Rpc rpc) {
      routes.add({transport::HttpVerb::kPost, pattern, &method, transport::MethodRole::kService, rpc, write_tei_error});
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
  service::ItemsMethod embed_, sparse_, similarity_, predict_, rerank_;
  DefaultMethod default_;
  UnservedMethod all_;
};

}  // namespace fastqps::protocols

// The Open Inference Protocol: the methods that are answered in the loop. The others, metadata, readiness and
// statistics, are rare (fastqps/frontdoor/open_inference.py).
#pragma once
#include "grpc/methods.h"
#include "http/http_routes.h"
#include "oip/http/http_infer.h"
#include "oip/infer_message.h"
#include "predict/formats/protocol.h"
#include "predict/stream_method.h"

namespace fastqps::front {

class OpenInference final : public Protocol {
 public:
  OpenInference(const ItemsPath& path, ModelRoutes& routes)
      : reader_(routes, path.items_max, false),
        stream_reader_(routes, path.items_max, true),
        http_reader_(routes, path.items_max),
        infer_(path, reader_, writer_, kModelInfer),
        stream_(path, stream_reader_, stream_writer_, kModelStreamInfer, GroupKind::kRequests),
        http_infer_(path, http_reader_, http_writer_, kModelInfer) {}

  void add_methods(MethodTable& table) override {
    constexpr auto kService = MethodRole::kService;
    table.add({"/inference.GRPCInferenceService/ModelInfer", MethodKind::kUnary, &infer_, kService, kModelInfer});
    table.add(
        {"/inference.GRPCInferenceService/ModelStreamInfer", MethodKind::kBidi, &stream_, kService, kModelStreamInfer});
  }

  void add_routes(HttpRoutes& routes) override {
    for (const char* pattern : {"/v2/models/{model}/infer", "/v2/models/{model}/versions/{version}/infer"})
      routes.add({HttpVerb::kPost, pattern, &http_infer_, MethodRole::kService, kModelInfer});
  }

 private:
  InferReader reader_, stream_reader_;
  HttpInferReader http_reader_;
  const InferWriter writer_;
  const InferStreamWriter stream_writer_;
  const HttpInferWriter http_writer_;
  ItemsMethod infer_;
  StreamMethod stream_;
  ItemsMethod http_infer_;
};

}  // namespace fastqps::front

// The Open Inference Protocol: the methods that are answered in the loop. The others, metadata, readiness and
// statistics, are rare (fastqps/frontdoor/open_inference.py).
#pragma once
#include "protocols/oip/http_infer.h"
#include "protocols/oip/infer_message.h"
#include "service/formats/protocol.h"
#include "service/methods.h"
#include "transport/http/http_routes.h"
#include "transport/rpc/method.h"

namespace fastqps::protocols {

class OpenInference final : public service::Protocol {
 public:
  OpenInference(const service::ItemsPath& path, service::ModelRoutes& routes)
      : reader_(routes, path.items_max, false),
        stream_reader_(routes, path.items_max, true),
        http_reader_(routes, path.items_max),
        infer_(path, reader_, writer_, kModelInfer),
        stream_(path, stream_reader_, stream_writer_, kModelStreamInfer, service::GroupKind::kRequests),
        http_infer_(path, http_reader_, http_writer_, kModelInfer) {}

  void add_methods(transport::MethodTable& table) override {
    constexpr auto kService = transport::MethodRole::kService;
    table.add(
        {"/inference.GRPCInferenceService/ModelInfer", transport::MethodKind::kUnary, &infer_, kService, kModelInfer});
    table.add({"/inference.GRPCInferenceService/ModelStreamInfer", transport::MethodKind::kBidi, &stream_, kService,
               kModelStreamInfer});
  }

  void add_routes(transport::HttpRoutes& routes) override {
    for (const char* pattern : {"/v2/models/{model}/infer", "/v2/models/{model}/versions/{version}/infer"})
      routes.add({transport::HttpVerb::kPost, pattern, &http_infer_, transport::MethodRole::kService, kModelInfer});
  }

 private:
  InferReader reader_, stream_reader_;
  HttpInferReader http_reader_;
  const InferWriter writer_;
  const InferStreamWriter stream_writer_;
  const HttpInferWriter http_writer_;
  service::ItemsMethod infer_;
  service::StreamMethod stream_;
  service::ItemsMethod http_infer_;
};

}  // namespace fastqps::protocols

// The Open Inference Protocol: the methods that are answered in the loop. The others, metadata, readiness and
// statistics, are rare (fastqps/frontdoor/open_inference.py).
#pragma once
#include "grpc/methods.h"
#include "oip/infer_message.h"
#include "predict/formats/protocol.h"
#include "predict/items_method.h"

namespace fastqps::front {

class OpenInference final : public Protocol {
 public:
  OpenInference(const ItemsPath& path, ModelRoutes& routes)
      : reader_(routes, path.items_max), infer_(path, reader_, writer_, kModelInfer) {}

  void add_methods(MethodTable& table) override {
    table.add(
        {"/inference.GRPCInferenceService/ModelInfer", MethodKind::kUnary, &infer_, MethodRole::kService, kModelInfer});
  }

 private:
  InferReader reader_;
  const InferWriter writer_;
  ItemsMethod infer_;
};

}  // namespace fastqps::front

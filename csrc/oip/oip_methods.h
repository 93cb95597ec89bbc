// The methods of inference.GRPCInferenceService that are answered in the loop. The others are rare: metadata, readiness
// and statistics (fastqps/frontdoor/oip).
#pragma once
#include "oip/infer_message.h"
#include "predict/items_method.h"

namespace fastqps::front {

class OipMethods {
 public:
  OipMethods(const ItemsPath& path, ModelRoutes& routes)
      : reader_(routes, path.items_max), infer_(path, reader_, writer_, kModelInfer) {}

  void add_to(MethodTable& table) {
    table.add(
        {"/inference.GRPCInferenceService/ModelInfer", MethodKind::kUnary, &infer_, MethodRole::kService, kModelInfer});
  }

 private:
  InferReader reader_;
  const InferWriter writer_;
  ItemsMethod infer_;
};

}  // namespace fastqps::front

// fastqps.v1.StepService, by which edges send their steps (proto/fastqps/v1/step.proto).
#pragma once
#include "predict/formats/protocol.h"
#include "step_service/step_method.h"

namespace fastqps::front {

class StepService final : public Protocol {
 public:
  StepService(const ItemsPath& path, ModelRoutes& routes, const DoorMemory& memory, std::string server)
      : run_(path, routes, memory, std::move(server)) {}

  void add_methods(MethodTable& table) override {
    table.add({kStepRunPath, MethodKind::kBidi, &run_, MethodRole::kService, kSteps});
  }

 private:
  StepMethod run_;
};

}  // namespace fastqps::front

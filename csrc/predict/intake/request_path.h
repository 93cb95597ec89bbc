// The objects on a request's path from its message to a ring.
#pragma once
#include "predict/answers/answer_path.h"
#include "predict/intake/intake.h"
#include "predict/tables/options.h"

namespace fastqps::front {

struct RequestPath {
  RequestPath(ServiceTables& tables, AnswerPath& answers, const PredictOptions& options);

  RequestChecker checker;
  Admission admission;
  SlotInput input;
  RequestQueue queue;
  Intake intake;
};

}  // namespace fastqps::front

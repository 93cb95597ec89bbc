// The objects on a request's path from its message to a ring.
#pragma once
#include "service/answers/answer_path.h"
#include "service/intake/intake.h"
#include "service/tables/options.h"

namespace fastqps::service {

struct RequestPath {
  RequestPath(ServiceTables& tables, AnswerPath& answers, const PredictOptions& options);

  RequestChecker checker;
  Admission admission;
  SlotInput input;
  RequestQueue queue;
  Intake intake;
};

}  // namespace fastqps::service

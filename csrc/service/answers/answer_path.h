// The objects on an answer's path from its slot to its call.
#pragma once
#include "service/answers/answers.h"
#include "service/answers/generation_calls.h"
#include "service/answers/withdrawals.h"
#include "service/intake/call_fit.h"
#include "service/intake/poison_marks.h"
#include "service/tables/service_tables.h"

namespace fastqps::service {

struct AnswerPath {
  AnswerPath(ServiceTables& tables, const PhaseWatch& phase, const PredictOptions& options);

  CallCounts counts;
  GroupCalls groups;
  CallFit fit;
  Answers answers;
  AnswerReader reader;
  ItemRecords records;
  GenerationCalls generating;
  PoisonMarks poison;
  Withdrawals withdrawals;
};

}  // namespace fastqps::service

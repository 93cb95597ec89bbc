// The objects on an answer's path from its slot to its call.
#pragma once
#include "predict/answers/answers.h"
#include "predict/answers/generation_calls.h"
#include "predict/answers/withdrawals.h"
#include "predict/intake/call_fit.h"
#include "predict/intake/poison_marks.h"
#include "predict/tables/service_tables.h"

namespace fastqps::front {

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

}  // namespace fastqps::front

// The objects on an answer's path from its slot to its call.
#pragma once
#include "service/answers/answers.h"
#include "service/answers/generation_calls.h"
#include "service/answers/withdrawals.h"

namespace fastqps::service {

struct AnswerPath {
  explicit AnswerPath(Tables& tables)
      : groups(tables),
        answers(tables, groups),
        reader(tables),
        records(tables),
        generating(tables, reader, records, answers),
        withdrawals(tables, groups, records, answers) {}

  GroupCalls groups;
  Answers answers;
  AnswerReader reader;
  ItemRecords records;
  GenerationCalls generating;
  Withdrawals withdrawals;
};

}  // namespace fastqps::service

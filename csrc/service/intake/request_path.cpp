#include "service/intake/request_path.h"

namespace fastqps::service {

RequestPath::RequestPath(ServiceTables& tables, AnswerPath& answers, const PredictOptions& options)
    : checker(tables.routes, tables.refusals),
      admission(tables.memory, tables.slots, tables.items, tables.room, answers.groups.table(), tables.loads,
                answers.fit, tables.refusals, options.times()),
      input(tables.memory, tables.slots, tables.routes, tables.spans, tables.tokenizers, tables.refusals),
      queue(tables.memory, tables.attachment, tables.slots, tables.items, tables.room, tables.loads,
            tables.large_answers, answers.poison, answers.withdrawals, tables.refusals),
      intake(tables.memory, tables.attachment, tables.slots, tables.items, tables.tenants, tables.room, answers.groups,
             answers.records, answers.generating, checker, admission, input, queue) {}

}  // namespace fastqps::service

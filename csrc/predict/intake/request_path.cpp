#include "predict/intake/request_path.h"

namespace fastqps::front {

RequestPath::RequestPath(ServiceTables& tables, AnswerPath& answers, SlotEvents& events, const PredictOptions& options)
    : checker(tables.routes, tables.refusals),
      admission(tables.memory, tables.slots, tables.items, tables.loads, tables.refusals, options.default_timeout_ns),
      input(tables.memory, tables.slots, tables.routes, tables.spans, tables.tokenizers, tables.refusals),
      queue(tables.memory, tables.attachment, tables.slots, tables.items, tables.loads, tables.large_answers,
            answers.poison, events, tables.refusals),
      intake(tables.memory, tables.attachment, tables.slots, tables.items, answers.groups, answers.records,
             answers.generating, checker, admission, input, queue) {}

}  // namespace fastqps::front

#include "service/answers/answer_path.h"

namespace fastqps::service {

AnswerPath::AnswerPath(ServiceTables& t, const PhaseWatch& phase, const PredictOptions& options)
    : counts(t.memory, t.attachment, t.clock),
      groups(t.memory, t.attachment, t.routes, counts, t.clock, options.kept_answer_bytes),
      fit(groups.table(), t.loads, t.refusals, options.times()),
      answers(t.memory, t.attachment, t.routes, groups, counts),
      reader(t.memory, t.slots, t.items, t.routes, t.generations, t.spans, t.loads, fit, t.clock, t.refusals),
      records(t.memory, t.attachment, t.slots, t.items, t.generations, t.clock),
      generating(t.memory, t.slots, t.items, t.routes, t.generations, reader, records, answers),
      poison(t.memory, t.slots),
      withdrawals(t.memory, t.attachment, t.slots, t.items, t.room, t.routes, groups, t.tokenizers, records, answers,
                  counts, fit, t.refusals, phase, options.times()) {}

}  // namespace fastqps::service

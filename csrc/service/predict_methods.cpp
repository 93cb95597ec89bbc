#include "service/predict_methods.h"

namespace fastqps::service {

PredictMethods::PredictMethods(ServiceTables& tables, RequestPath& requests, AnswerPath& answers,
                               const PredictOptions& options)
    : items_path{tables.attachment,
                 answers.groups,
                 requests.intake,
                 answers.answers,
                 answers.withdrawals,
                 answers.counts,
                 tables.refusals,
                 options.settings.max_request_items,
                 options.settings.max_stream_inflight},
      batch_reader(options.settings.max_request_items),
      predict(requests.intake, answers.answers, answers.withdrawals, kPredict),
      generate(requests.intake, answers.answers, answers.withdrawals, kGenerate),
      batch(items_path, batch_reader, batch_writer, kPredictBatch),
      stream(items_path, stream_reader, stream_writer, kPredictStream, GroupKind::kEach) {}

void PredictMethods::add_to(transport::MethodTable& table) {
  const transport::MethodRow rows[] = {{"/fastqps.v1.PredictService/Predict", transport::MethodKind::kUnary, &predict,
                                        transport::MethodRole::kService, kPredict},
                                       {"/fastqps.v1.PredictService/PredictBatch", transport::MethodKind::kUnary,
                                        &batch, transport::MethodRole::kService, kPredictBatch},
                                       {"/fastqps.v1.PredictService/PredictStream", transport::MethodKind::kBidi,
                                        &stream, transport::MethodRole::kService, kPredictStream},
                                       {"/fastqps.v1.PredictService/Generate", transport::MethodKind::kServerStream,
                                        &generate, transport::MethodRole::kService, kGenerate}};
  for (const transport::MethodRow& row : rows) table.add(row);
}

}  // namespace fastqps::service

// The methods of PredictService, each an object and a row.
#pragma once
#include "grpc/methods.h"
#include "predict/batch_method.h"
#include "predict/intake/request_path.h"
#include "predict/single_method.h"
#include "predict/stream_method.h"

namespace fastqps::front {

struct PredictMethods {
  PredictMethods(ServiceTables& tables, RequestPath& requests, AnswerPath& answers, const PredictOptions& options);
  void add_to(MethodTable& table);

  SingleMethod predict, generate;
  BatchMethod batch;
  StreamMethod stream;
};

}  // namespace fastqps::front

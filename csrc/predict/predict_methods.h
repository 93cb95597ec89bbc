// The methods of PredictService, each an object and a row.
#pragma once
#include "grpc/methods.h"
#include "predict/formats/native_batch.h"
#include "predict/intake/request_path.h"
#include "predict/items_method.h"
#include "predict/single_method.h"
#include "predict/stream_method.h"

namespace fastqps::front {

struct PredictMethods {
  PredictMethods(ServiceTables& tables, RequestPath& requests, AnswerPath& answers, const PredictOptions& options);
  void add_to(MethodTable& table);

  // What methods of other protocols are made of.
  const ItemsPath items_path;
  NativeBatchReader batch_reader;
  const NativeBatchWriter batch_writer;
  NativeStreamReader stream_reader;
  const NativeStreamWriter stream_writer;

  SingleMethod predict, generate;
  ItemsMethod batch;
  StreamMethod stream;
};

}  // namespace fastqps::front

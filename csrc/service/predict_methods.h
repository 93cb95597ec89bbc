// The methods of PredictService, each an object and a row.
#pragma once
#include "service/formats/native_batch.h"
#include "service/intake/request_path.h"
#include "service/items_method.h"
#include "service/single_method.h"
#include "service/stream_method.h"
#include "transport/rpc/methods.h"

namespace fastqps::service {

struct PredictMethods {
  PredictMethods(ServiceTables& tables, RequestPath& requests, AnswerPath& answers, const PredictOptions& options);
  void add_to(transport::MethodTable& table);

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

}  // namespace fastqps::service

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "protocols/vllm/pooling.h"
#include "transport/http/http_request.h"

namespace fastqps::protocols {

FieldRows VllmReader::api_fields() const {
  static constexpr FieldRow kFields[] = {
      {"model", text_option<&TextOptions::model>},
      {"user", unused<std::string_view>},
      {"request_id", into<&VllmReader::id_>},
      {"use_activation", into<&VllmReader::activate_>},
      {"truncate_prompt_tokens", by<&VllmReader::read_truncation>},
      {"truncation_side", by<&VllmReader::read_direction<"must be left or right">>},
      {"add_special_tokens", only<true, "must be true: to leave them out, send token ids">},
      {"padding", only_words<"do_not_pad">},
      {"embed_dtype", only_words<"float32">},
      {"endianness", only_words<"native", "little">},
      {"messages", refused<"is not served: send the texts themselves">},
  };
  return kFields;
}

FieldError VllmReader::read_truncation(const GivenField& field) {
  const OptionValue value = field.option();
  options_.text.truncation.asked = true;
  if (value.kind == OptionValue::Kind::kInt && value.integer == -1) return tokens_ = 0, FieldError{};
  return read_value(field, tokens_);
}

FieldError VllmReader::finish(i32 route, ReasonText& reason) {
  if (const FieldError error = requests_.check_tokens("truncate_prompt_tokens", tokens_, route, reason)) return error;
  options_.text.raw_scores = activate_ == false;
  char rest[64];
  head_.ignored = ignored_.letter();
  context_ = bytes_of(head_);
  context_ += "\"id\":";
  transport::append_json_string(context_, std::string(name_) + "-" + (id_.empty() ? next_id().text : std::string(id_)));
  std::snprintf(rest, sizeof rest, R"(,"object":"list","created":%lld)", (long long)std::time(nullptr));
  context_ += rest;
  return {};
}

// ---- /classify and /pooling

FieldRows PoolingReader::fields() const {
  static constexpr FieldRow kFields[] = {
      {"input", into<&PoolingReader::inputs_>, kInput},  // that /classify has alone
      {"task", by<&PoolingReader::read_task>},
      {"dimensions", text_option<&TextOptions::dimensions>},
      {"prompt_name", text_option<&TextOptions::prompt_name>},
      {"encoding_format", by<&PoolingReader::read_format>},
  };
  return only_ ? FieldRows(kFields).first(1) : kFields;
}

FieldError PoolingReader::read_task(const GivenField& field) {
  task_ = std::ranges::find(kPoolingTasks, field.text(), &PoolingTask::name);
  return task_ != std::end(kPoolingTasks) ? FieldError{}
                                          : FieldError{field.name, "must be embed, token_embed or classify"};
}

FieldError PoolingReader::choose_task(ReasonText& reason) {
  const auto task_of = [&](u32 route) {
    return std::ranges::find(kPoolingTasks, routes_[route].task, &PoolingTask::task);
  };
  const i32 route =
      routes_.find(options_.text.model, [&](u32 each) { return task_of(each) != std::end(kPoolingTasks); });
  task_ = route < 0 ? kPoolingTasks : task_of(u32(route));  // one that is not served is refused later
  if (task_ != std::end(kPoolingTasks)) return {};
  return {"",
          reason.print("the model '%s' %s: this route is for vectors and labels", routes_.name(u32(route)),
                       traits(routes_[u32(route)].task).does),
          FieldFault::kModel};
}

FieldError PoolingReader::check(const transport::CallInfo&, ReasonText& reason) {
  if (!inputs_.given()) return {"input", "must be given"};
  if (!task_)
    if (const FieldError error = choose_task(reason)) return error;
  const Need need{.task = task_->task, .single_texts = task_->task == Task::kClassify};
  if (const FieldError error = requests_.check(need, options_.text.model, reason)) return error;
  return finish(requests_.find(need, options_.text.model), reason);
}

FieldError PoolingReader::item(u32 index, RequestView& view) {
  view = options_.base;
  inputs_.item(index, view);
  if (const FieldError error = requests_.one(task_->task, options_.text, view, item_reason_)) return error;
  view.output.normalize = activate_;  // a classifier ignores both
  view.output.dimensions = options_.text.dimensions.value_or(0);
  return {};
}

// ---- /score

FieldRows ScoreReader::fields() const {
  static constexpr FieldRow kFields[] = {
      {"queries", into<&ScoreReader::queries_>, kInput},  {"data_1", into<&ScoreReader::queries_>, kInput},
      {"text_1", into<&ScoreReader::queries_>, kInput},   {"documents", into<&ScoreReader::documents_>, kInput},
      {"data_2", into<&ScoreReader::documents_>, kInput}, {"text_2", into<&ScoreReader::documents_>, kInput},
      {"items", into<&ScoreReader::documents_>, kInput},
  };
  return kFields;
}

FieldError ScoreReader::check(const transport::CallInfo&, ReasonText& reason) {
  const u32 queries = queries_.items(), documents = documents_.items();
  if (!queries) return {"queries", "must be given, at least 1", FieldFault::kEmpty};
  if (!documents) return {"documents", "must be given, at least 1", FieldFault::kEmpty};
  if (queries > 1 && queries != documents)
    return {"queries", reason.print("%u, must be 1 or as many as the %u documents", queries, documents)};
  const std::string_view model = options_.text.model;
  i32 route = requests_.find(kRanks, model);
  if (route < 0 || requests_.can(kRanks, u32(route))) return finish(route, reason);
  route = requests_.find({Task::kEmbed}, model);
  if (route < 0 || !requests_.can({Task::kEmbed}, u32(route))) return requests_.check(kRanks, model, reason);
  head_.queries = queries;
  options_.text.normalize = false;  // the writer divides by the lengths
  if (items() > items_max_)
    return {"documents", reason.print("%u texts with the queries, at most %u", items(), items_max_),
            FieldFault::kTooMany};
  return finish(route, reason);
}

FieldError ScoreReader::item(u32 index, RequestView& view) {
  view = options_.base;
  if (!head_.queries) {
    const std::string_view query = queries_.texts()[queries_.items() == 1 ? 0 : index];
    return requests_.rerank(query, documents_.texts()[index], options_.text, view, item_reason_);
  }
  index < head_.queries ? queries_.item(index, view) : documents_.item(index - head_.queries, view);
  return requests_.one(Task::kEmbed, options_.text, view, item_reason_);
}

}  // namespace fastqps::protocols

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "core/clock.h"
#include "protocols/vllm/pooling.h"
#include "transport/http/http_request.h"

namespace fastqps::protocols {

namespace {

// Fields that are allowed to have one value alone, because there is no other here. false: the name is not one of them.
bool read_fixed(std::string_view name, const OptionValue& value, FieldError& error) {
  using Kind = OptionValue::Kind;
  if (name == "add_special_tokens") {
    const bool fits = value.kind == Kind::kBool && value.boolean;
    return error = {"add_special_tokens", fits ? nullptr : "must be true: to leave them out, send token ids"}, true;
  }
  constexpr struct {
    const char *name, *reason;
    std::string_view values[2];
  } kFixed[] = {{"padding", "must be do_not_pad", {"do_not_pad"}},
                {"embed_dtype", "must be float32", {"float32"}},
                {"endianness", "must be native or little", {"native", "little"}}};
  for (const auto& row : kFixed)
    if (name == row.name) {
      const bool fits = !value.text.empty() && std::ranges::find(row.values, value.text) != std::end(row.values);
      return error = {row.name, fits ? nullptr : row.reason}, true;
    }
  return false;
}

}  // namespace

FieldError VllmReader::read_truncation(const OptionValue& value) {
  options_.text.truncation.asked = true;
  if (value.kind == OptionValue::Kind::kInt && value.integer == -1) return tokens_ = 0, FieldError{};
  return {"truncate_prompt_tokens", service::to_count(value, &tokens_)};
}

std::optional<FieldError> VllmReader::read_own(std::string_view name, const JsonValue& element, ReasonText& reason) {
  if (const auto own = read_input(name, element, reason)) return own;
  if (ignored_.take(name, element) || element.is_null()) return FieldError{};  // clients send null for what is not set
  const OptionValue value = option_value(element);
  std::string_view user;
  FieldError error;
  if (name == "model") return read_text("model", element, &options_.text.model);
  if (name == "user") return read_text("user", element, &user);
  if (name == "request_id") return read_text("request_id", element, &id_);
  if (name == "use_activation") return read_flag("use_activation", value, activate_.emplace());
  if (name == "truncate_prompt_tokens") return read_truncation(value);
  if (name == "truncation_side") {
    error = read_direction(value, options_.text.direction);
    return error ? FieldError{"truncation_side", "must be left or right"} : error;
  }
  if (name == "messages") return FieldError{"messages", "is not served: send the texts themselves"};
  if (read_fixed(name, value, error)) return error;
  if (const auto option = set_call_option(name, value, options_.base)) return *option;
  return unknown_field(name, lists_);
}

FieldError VllmReader::finish(i32 route, ReasonText& reason) {
  if (const FieldError error = requests_.check_tokens("truncate_prompt_tokens", tokens_, route, reason)) return error;
  options_.text.raw_scores = activate_ == false;
  char made[40], rest[64];
  std::snprintf(made, sizeof made, "%016llx%08llx", (unsigned long long)now_ns(), (unsigned long long)made_++);
  head_.ignored = ignored_.letter();
  context_ = head_.bytes();
  context_ += "\"id\":";
  transport::append_json_string(context_, std::string(name_) + "-" + (id_.empty() ? made : std::string(id_)));
  std::snprintf(rest, sizeof rest, R"(,"object":"list","created":%lld)", (long long)std::time(nullptr));
  context_ += rest;
  return {};
}

// ---- /classify and /pooling

std::optional<FieldError> PoolingReader::read_input(std::string_view name, const JsonValue& element,
                                                    ReasonText& reason) {
  if (name == "input") return inputs_.read(element, reason);
  if (only_ || element.is_null()) return {};
  const OptionValue value = option_value(element);
  if (name == "task") return read_task(value.text);
  if (name == "dimensions")
    return FieldError{"dimensions", service::to_count(value, &options_.text.dimensions.emplace())};
  if (name == "prompt_name") return read_text("prompt_name", element, &options_.text.prompt_name);
  if (name != "encoding_format") return {};
  head_.base64 = value.text == "base64";
  return head_.base64 || value.text == "float" ? FieldError{}
                                               : FieldError{"encoding_format", "must be float or base64"};
}

FieldError PoolingReader::read_task(std::string_view name) {
  for (const PoolingTask& row : kPoolingTasks)
    if (row.name == name) return task_ = &row, FieldError{};
  return {"task", "must be embed, token_embed or classify"};
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
  if (const FieldError error = (requests_.*task_->make)(options_.text, view, item_reason_)) return error;
  view.output.normalize = activate_;  // a classifier ignores both
  view.output.dimensions = options_.text.dimensions.value_or(0);
  return {};
}

// ---- /score

std::optional<FieldError> ScoreReader::read_input(std::string_view name, const JsonValue& value, ReasonText& reason) {
  constexpr const char *kQueries[] = {"queries", "data_1", "text_1"},
                       *kDocuments[] = {"documents", "data_2", "text_2", "items"};
  const auto read = [&](const auto& names, std::vector<std::string_view>& texts) -> std::optional<FieldError> {
    for (const char* each : names) {
      if (name != each) continue;
      if (!value.is_string()) return read_texts(each, value, items_max_, texts, reason);
      texts.assign(1, std::string_view(value));
      return FieldError{};
    }
    return {};
  };
  const auto query = read(kQueries, queries_);
  return query ? query : read(kDocuments, documents_);
}

FieldError ScoreReader::check(const transport::CallInfo&, ReasonText& reason) {
  if (queries_.empty()) return {"queries", "must be given, at least 1", FieldFault::kEmpty};
  if (documents_.empty()) return {"documents", "must be given, at least 1", FieldFault::kEmpty};
  if (queries_.size() > 1 && queries_.size() != documents_.size())
    return {"queries",
            reason.print("%zu, must be 1 or as many as the %zu documents", queries_.size(), documents_.size())};
  const std::string_view model = options_.text.model;
  i32 route = requests_.find(kRanks, model);
  if (route < 0 || requests_.can(kRanks, u32(route))) return finish(route, reason);
  route = requests_.find({Task::kEmbed}, model);
  if (route < 0 || !requests_.can({Task::kEmbed}, u32(route))) return requests_.check(kRanks, model, reason);
  head_.queries = u32(queries_.size());
  options_.text.normalize = false;  // the writer divides by the lengths
  if (items() > items_max_)
    return {"documents", reason.print("%u texts with the queries, at most %u", items(), items_max_),
            FieldFault::kTooMany};
  return finish(route, reason);
}

FieldError ScoreReader::item(u32 index, RequestView& view) {
  view = options_.base;
  if (!head_.queries) {
    const std::string_view query = queries_[queries_.size() == 1 ? 0 : index];
    return requests_.rerank(query, documents_[index], options_.text, view, item_reason_);
  }
  view.input = Input::kText;
  view.text = index < head_.queries ? queries_[index] : documents_[index - head_.queries];
  return requests_.embed(options_.text, view, item_reason_);
}

}  // namespace fastqps::protocols

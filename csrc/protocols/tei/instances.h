// Predictions as Vertex AI asks for them: several bodies of one route of text-embeddings-inference, and their answers.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "protocols/tei/http_requests.h"

namespace fastqps::protocols {

// In the context of an answer, in front of the context of an instance.
struct InstanceHead {
  u32 items, context_bytes;
};

// POST /vertex: {"instances": [BODY, …], "parameters": {…}}, where parameters are options of all instances. An instance
// that is no object is the inputs of one.
class InstancesReader final : public JsonReader {
 public:
  // one: reads an instance.
  InstancesReader(TeiJsonReader& one, u32 items_max) : one_(one), items_max_(items_max) {}

  FieldError read_body(const JsonObject& body, const transport::CallInfo&, ReasonText& reason) override {
    given_ = false;
    options_ = one_.defaults();
    instances_.clear();
    context_.clear();
    items_ = 0;
    for (const auto [name, value] : body)
      if (const FieldError error = read_field(name, value, reason)) return error;
    if (!given_) return {"instances", "must be given"};
    for (const JsonValue& value : values_)
      if (const FieldError wrong = add(value, reason)) return wrong;
    if (instances_.empty()) return {"instances", "an empty array, must have at least one element", FieldFault::kEmpty};
    return {};
  }
  u32 items() const override { return items_; }
  // Reads an instance again for the first of its items that is asked for.
  FieldError item(u32 index, RequestView& view) override {
    const Instance& instance = instances_[current_];
    if (index >= instance.first && index < instance.first + instance.items)
      return one_.item(index - instance.first, view);
    if (index < instance.first) current_ = 0;
    while (index >= instances_[current_].first + instances_[current_].items) current_++;
    const FieldError error = one_.read_one(instances_[current_].value, options_, reason_);
    return error ? error : one_.item(index - instances_[current_].first, view);
  }
  std::string_view context() const override { return context_; }

 private:
  struct Instance {
    JsonValue value;
    u32 first, items;  // of the items of all instances
  };
  // Of other fields nothing is read, as of those of TEI's bodies.
  FieldError read_field(std::string_view name, const JsonValue& value, ReasonText& reason) {
    if (name == "instances") {
      given_ = true;
      if (value.get(values_)) return {"instances", "must be an array"};
    } else if (name == "parameters" && !value.is_null()) {
      JsonObject parameters;
      if (value.get(parameters)) return {"parameters", "must be an object"};
      return one_.read_shared(parameters, options_, reason);
    }
    return {};
  }
  FieldError add(const JsonValue& value, ReasonText& reason) {
    if (const FieldError error = one_.read_one(value, options_, reason)) {
      field_ = "instances[" + std::to_string(instances_.size()) + "]";
      if (error.field && *error.field) field_.append(".").append(error.field);
      return {field_.c_str(), error.reason, error.fault};
    }
    if (one_.items() > items_max_ - items_)
      return {"instances", reason.print("more than %u inputs, which is the most", items_max_), FieldFault::kTooMany};
    current_ = u32(instances_.size());
    instances_.push_back({value, items_, one_.items()});
    items_ += one_.items();
    const std::string_view context = one_.context();
    const InstanceHead head{one_.items(), u32(context.size())};
    context_.append(bytes_of(head)).append(context);
    return {};
  }

  TeiJsonReader& one_;
  const u32 items_max_;
  bool given_ = false;
  JsonArray values_;
  JsonOptions options_;  // the parameters: they are read once, however many instances there are
  std::vector<Instance> instances_;
  u32 current_ = 0;  // the one that one_ has read
  u32 items_ = 0;
  std::string context_, field_;
  ReasonText reason_;
};

// {"predictions": [ANSWER, …]}: for each instance the answer of its route.
class InstancesWriter final : public service::AnswerWriter {
 public:
  explicit InstancesWriter(const service::AnswerWriter& one) : one_(one) {}

  size_t room(const service::AnsweredCall& call, std::span<const ResponseView> items) const override {
    size_t room = kBegin.size() + kEnd.size();
    each(call, items, [&](const service::AnsweredCall& own, std::span<const ResponseView> part) {
      room += 1 + one_.room(own, part);
    });
    return room;
  }
  u8* write(const service::AnsweredCall& call, std::span<const ResponseView> items, u8* out) const override {
    u8* at = std::copy(kBegin.begin(), kBegin.end(), out);
    bool first = true;
    each(call, items, [&](const service::AnsweredCall& own, std::span<const ResponseView> part) {
      if (!std::exchange(first, false)) *at++ = ',';
      at = one_.write(own, part, at);
    });
    return std::copy(kEnd.begin(), kEnd.end(), at);
  }
  const service::FieldNames* fields() const override { return one_.fields(); }

 private:
  static constexpr std::string_view kBegin = R"({"predictions":[)", kEnd = "]}";

  // Calls use(call, items) for each instance.
  template <class Use>
  void each(service::AnsweredCall call, std::span<const ResponseView> items, Use use) const {
    for (std::string_view rest = call.context; !rest.empty();) {
      const auto head = head_of<InstanceHead>(rest);
      call.context = rest.substr(sizeof head, head.context_bytes);
      use(call, items.first(head.items));
      rest.remove_prefix(sizeof head + head.context_bytes);
      items = items.subspan(head.items);
    }
  }

  const service::AnswerWriter& one_;
};

}  // namespace fastqps::protocols

// POST /: the method that fits the default model. Clients that know only a model's address call it.
#pragma once
#include "json/json_body.h"
#include "predict/items_method.h"
#include "predict/tables/model_routes.h"

namespace fastqps::front {

class DefaultMethod final : public Method {
 public:
  struct Choices {
    ItemsMethod &embed, &sparse, &similarity, &predict, &rerank;
  };
  DefaultMethod(ModelRoutes& routes, const Choices& choices) : routes_(routes), choices_(choices) {}

  Took on_message(CallId call, std::span<const u8> message, const CallInfo& info) override {
    return choose(message, info.user).on_message(call, message, info);
  }
  Gone on_gone(CallId call, u64 user) override { return choices_.embed.on_gone(call, user); }  // all do the same

 private:
  ItemsMethod& choose(std::span<const u8> message, u64 user) {
    for (ItemsMethod* method :
         {&choices_.embed, &choices_.sparse, &choices_.similarity, &choices_.predict, &choices_.rerank})
      if (method->began(user)) return *method;
    const i32 route = routes_.find({});
    if (route >= 0 && routes_[u32(route)].task == Task::kEmbedSparse) return choices_.sparse;
    if (route < 0 || routes_[u32(route)].task != Task::kClassify)
      return asks_for_similarity(message) ? choices_.similarity : choices_.embed;
    return routes_[u32(route)].dimensions == 1 ? choices_.rerank : choices_.predict;
  }
  bool asks_for_similarity(std::span<const u8> message) {
    ReasonText reason;
    simdjson::dom::object request;
    simdjson::dom::element inputs;
    return !body_.parse(message, &request, reason) && !request["inputs"].get(inputs) && inputs.is_object();
  }

  ModelRoutes& routes_;
  const Choices choices_;
  JsonBody body_;
};

}  // namespace fastqps::front

// The routes of the models: which one serves a name, its loaded setup, and how many items hold its slots.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/request_view.h"
#include "service/tables/attachment.h"
#include "service/tables/door_memory.h"
#include "service/tables/route_setups.h"

namespace fastqps::service {

class ModelRoutes {
 public:
  static constexpr i32 kUnknown = -1, kStarting = -2;

  // auto_truncate: whether an input that is too long is cut where its request does not say; not given: as its API has
  // it.
  ModelRoutes(const DoorMemory& memory, std::optional<bool> auto_truncate);

  const Route& operator[](u32 route) const { return memory_.route(route); }
  // Returns the route that serves a model, kUnknown, or kStarting if none of its generations serves yet. An empty name
  // is the first model.
  i32 find(std::string_view model) const;
  // An empty name is the first model whose route can(route), or else the first one.
  template <class Can>
  i32 find(std::string_view model, Can can) const {
    for (u32 m = 0; model.empty() && m < models(); m++)
      if (const i32 route = serving(m); route >= 0 && can(u32(route))) return route;
    return find(model);
  }
  // The route under which a call of an unknown model is counted.
  u32 first() const { return u32(std::max(find({}), 0)); }
  const char* name(u32 route) const { return memory_.segment.model(route / kGenerations).name; }
  // All models' names, quoted, for a message.
  std::string names() const {
    return names([](u32) { return true; });
  }
  // Of those whose route can(route).
  template <class Can>
  std::string names(Can can) const {
    std::string names;
    for (u32 m = 0; m < models(); m++)
      if (can(m * kGenerations + memory_.segment.model(m).serving.load(kAcquire)))
        names.append(names.empty() ? "'" : ", '").append(memory_.segment.model(m).name).append("'");
    return names;
  }

  RouteSetup& setup(u32 route) { return setups_[route]; }
  // The most tokens of an input, by its role.
  u32 tokens_max(u32 route, u8 role) {
    const std::vector<InputRole>& roles = setup(route).roles;
    return role < roles.size() ? roles[role].tokens_max : (*this)[route].max_input_tokens;
  }
  // Whether an input that is too long is cut, instead of being refused.
  bool cuts(const Truncation& truncation) const {
    return truncation.asked.value_or(auto_truncate_.value_or(truncation.by_api));
  }
  transport::HeaderId header(u32 route) { return setups_.header(route); }
  RouteSetups& setups() { return setups_; }

  // An item of the route holds a slot, until release().
  void hold(u32 route) { held_[route]++; }
  void release(u32 route) { held_[route]--; }

  // Called once a turn: takes the setups that another thread has loaded for a model's next generation.
  void take_setups(transport::LoopControl* loop);
  // Called at the end of a turn: while a generation is being replaced, reports to the supervisor how many items each
  // route holds.
  void report_held();

 private:
  u32 models() const { return memory_.segment.sizes().models; }
  // The route of a model, or kStarting.
  i32 serving(u32 model) const;

  const DoorMemory& memory_;
  const std::optional<bool> auto_truncate_;
  RouteSetups setups_;
  std::vector<u32> held_;  // by route: items that have a slot
  u32 flips_seen_ = 0;
  bool draining_ = false;
};

}  // namespace fastqps::service

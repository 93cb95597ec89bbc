#include "service/tables/routes.h"

namespace fastqps::service {

ModelRoutes::ModelRoutes(const DoorMemory& memory, const DoorSettings& settings)
    : memory_(memory),
      settings_(settings),
      setups_(memory.segment.sizes().routes(), memory.fds ? memory.fds->door[memory.door] : -1),
      held_(memory.segment.sizes().routes(), 0) {}

i32 ModelRoutes::number(std::string_view name) const {
  if (name.empty() || settings_.any_model_name) return 0;
  for (u32 m = 0; m < models(); m++)
    if (name == memory_.segment.model(m).name) return i32(m);
  for (const auto& [alias, model] : settings_.aliases)
    if (name == alias) return i32(model);
  return kUnknown;
}

i32 ModelRoutes::serving(u32 m) const {
  const Model& model = memory_.segment.model(m);
  return model.ready.load(kAcquire) ? i32(m * kGenerations + model.serving.load(kAcquire)) : kStarting;
}

void ModelRoutes::take_setups(transport::LoopControl* loop) {
  setups_.take([&](u32 route, const RouteSetup& setup) {
    DoorRoute& line = memory_.segment.door_route(memory_.door, route);
    // The supervisor waits until no item is left. Refuse if it did not, because an item would use freed memory.
    if (held_[route]) {
      line.refused.store(setup.generation + 1, kRelease);
      return false;
    }
    if (setup.dropped) {
      line.loaded.store(0, kRelease);
      return true;
    }
    transport::HeaderId& header = setups_.header(route);
    if (header) {
      loop->change_header(header, setup.version);
    } else if (loop) {
      header = loop->add_header("fastqps-model", setup.version);
    }
    line.loaded.store(setup.generation + 1, kRelease);
    return true;
  });
}

// Runs in the turn that reads the flips. Items accepted before are counted in held_; later ones go to the new
// generations.
void ModelRoutes::report_held() {
  const u32 flips = memory_.segment.supervisor().flips.load(kAcquire);
  if (flips == flips_seen_ && !draining_) return;
  draining_ = false;
  for (u32 r = 0; r < memory_.segment.sizes().routes(); r++) {
    draining_ |= memory_.route(r).state.load(kAcquire) == RouteState::kDraining;
    // relaxed: published by flips_seen below
    memory_.segment.door_route(memory_.door, r).held.store(held_[r], kRelaxed);
  }
  flips_seen_ = flips;
  memory_.line.flips_seen.store(flips, kRelease);
}

}  // namespace fastqps::service

// What a front door does about models that are reloaded: it takes over what another thread has loaded for the next
// generation of one, and says when it has nothing more of the generation before.
#include "predict/predict_service.h"

namespace fastqps::front {

void PredictService::take_setups() {
  setups_.take([this](u32 route, const RouteSetup& setup) {
    DoorRoute& line = segment_.door_route(options_.door, route);
    if (held_[route]) {  // the supervisor has waited for the last of them: this cannot be, and would end in freed
                         // memory
      line.refused.store(setup.generation + 1, kRelease);
      return false;
    }
    if (setup.dropped) {
      line.loaded.store(0, kRelease);
      return true;
    }
    HeaderId& header = setups_.header(route);
    if (header) {
      loop_->change_header(header, setup.version);
    } else if (loop_) {
      header = loop_->add_header("fastqps-model", setup.version);
    }
    line.loaded.store(setup.generation + 1, kRelease);
    return true;
  });
}

// Last in a turn that reads the flips: whatever was accepted before is counted in held_, whatever will be is for the
// generations that serve since then.
void PredictService::report_held() {
  const u32 flips = segment_.supervisor().flips.load(kAcquire);
  if (flips == flips_seen_ && !draining_routes_) return;
  draining_routes_ = false;
  for (u32 r = 0; r < segment_.sizes().routes(); r++) {
    draining_routes_ |= segment_.route(r).state.load(kAcquire) == RouteState::kDraining;
    segment_.door_route(options_.door, r).held.store(held_[r], kRelaxed);
  }
  flips_seen_ = flips;
  line_->flips_seen.store(flips, kRelease);
}

}  // namespace fastqps::front

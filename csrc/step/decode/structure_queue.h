// Claimed requests whose texts have a structure. Each waits here until its structure is compiled, and then for a step
// with room for it.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "contract/status.h"
#include "core/claimer.h"

namespace fastqps {

class StructureQueue {
 public:
  struct Waiting {
    enum class Stage : u8 { kClaimed, kCompiles, kCompiled, kRefused };

    Claim claim;
    u64 claimed_ns;
    u64 ticket;
    bool suspect = false;
    bool has_room = true;  // in the step that is gathered now, beside what was claimed for it
    Stage stage = Stage::kClaimed;
    StatusCode code = StatusCode::kOk;  // of a refused one
    std::string refusal = {};

    bool compiled() const { return stage == Stage::kCompiled; }
    bool refused() const { return stage == Stage::kRefused; }
  };

  void add(const Claim& claim, u64 claimed_ns, bool suspect) {
    waiting_.push_back({claim, claimed_ns, ++tickets_, suspect});
  }
  // Calls compile(ticket, claim) for those that were added since the last call.
  template <class Compile>
  void start(Compile compile) {
    for (Waiting& each : waiting_)
      if (each.stage == Waiting::Stage::kClaimed) {
        each.stage = Waiting::Stage::kCompiles;
        compile(each.ticket, each.claim);
      }
  }
  // A structure is compiled. Any code but kOk: its request is refused with the message.
  void settle(u64 ticket, StatusCode code, std::string_view message) {
    for (Waiting& each : waiting_)
      if (each.ticket == ticket) {
        each.stage = code == StatusCode::kOk ? Waiting::Stage::kCompiled : Waiting::Stage::kRefused;
        each.code = code, each.refusal = message;
      }
  }

  bool holds(u64 ticket) const {
    return any([ticket](const Waiting& each) { return each.ticket == ticket; });
  }
  bool settled() const {
    return any([](const Waiting& each) { return each.compiled() || each.refused(); });
  }
  template <class Is>
  bool any(Is is) const {
    return std::any_of(waiting_.begin(), waiting_.end(), is);
  }

  // Room for all that are compiled now, in front of what is claimed beside them. rows(claim): of its prompt.
  struct Room {
    u32 items = 0;
    u64 rows = 0;
  };
  template <class Rows>
  Room keep_room(Rows rows) {
    Room room;
    for (Waiting& each : waiting_)
      if ((each.has_room = each.compiled())) room.items++, room.rows += rows(each.claim);
    return room;
  }
  u32 others(const Room& compiled) const { return u32(waiting_.size()) - compiled.items; }

  // Takes those out for which take(each) is true; returns whether there are any.
  template <class Take>
  bool take(Take take) {
    return std::erase_if(waiting_, take);
  }

 private:
  std::vector<Waiting> waiting_;  // oldest first
  u64 tickets_ = 0;               // given so far
};

}  // namespace fastqps

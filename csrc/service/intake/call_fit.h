// Refuses a call whose own inputs take longer than it may, even if nothing else waits: to try again would not help.
#pragma once
#include "service/formats/answer_writer.h"
#include "service/intake/queue_loads.h"
#include "service/tables/groups.h"
#include "service/tables/items.h"
#include "service/tables/refusal.h"

namespace fastqps::service {

class CallFit {
 public:
  CallFit(const Groups& groups, const QueueLoads& loads, RefusalWriter& refusals, const TimeLimits& times)
      : groups_(groups), loads_(loads), refusals_(refusals), times_(times) {}

  // No refusal if the call fits, is a stream, or the server's rate is not known. margin: by so much the call's time
  // must be too short.
  Refusal check(u32 g, u32 route, u64 received_ns, u64 last_ns, TimeBound bound, double margin = 1) const {
    if (!together(g) || !last_ns) return {};
    const Group& group = groups_[g];
    const u64 time_ns = bound == TimeBound::kDefault ? times_.most_ns() : last_ns - received_ns;
    const u64 fit = loads_.answered_in(route, time_ns, group.mean_tokens());
    if (!fit || double(fit) * margin >= group.items) return {};
    return refusals_.refuse_inputs(group.items, fit, time_ns, bound);
  }
  Refusal check(const Item& item, u64 last_ns, double margin = 1) const {
    return check(item.group, item.route, item.received_ns, last_ns, item.bound, margin);
  }
  // If the call has more items than may wait at once, and fails with the first that is refused.
  Refusal check_room(u32 group, u32 most, const char* setting) const {
    if (!together(group) || groups_[group].items <= most || groups_[group].writer->has_item_statuses()) return {};
    return refusals_.refuse(StatusCode::kInvalidArgument,
                            "%u inputs, and at most %u can wait (%s): send fewer in a call", groups_[group].items, most,
                            setting);
  }

 private:
  bool together(u32 group) const { return group != Groups::kNone && groups_[group].kind == GroupKind::kTogether; }

  const Groups& groups_;
  const QueueLoads& loads_;
  RefusalWriter& refusals_;
  const TimeLimits times_;
};

}  // namespace fastqps::service

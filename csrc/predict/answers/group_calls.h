// Open calls of many items: PredictBatch, answered when all its items are, and PredictStream, whose items are answered
// one by one.
#pragma once
#include "predict/answers/call_counts.h"
#include "predict/tables/groups.h"
#include "predict/tables/model_routes.h"
#include "wire/response_view.h"

namespace fastqps::front {

class GroupCalls {
 public:
  GroupCalls(const DoorMemory& memory, const Attachment& attachment, ModelRoutes& routes, CallCounts& counts,
             const TurnClock& clock)
      : attachment_(attachment),
        routes_(routes),
        counts_(counts),
        clock_(clock),
        groups_(memory.segment.sizes().slots) {}

  Group& operator[](u32 group) { return groups_[group]; }
  u32 size() const { return groups_.size(); }
  u32 next(u32 slot) const { return groups_.next(slot); }
  u32 open(CallId call, Rpc method, const CallInfo& info);

  void link(u32 group, u32 slot, u32 route);
  // Frees the group if this was its last item.
  void unlink(u32 group, u32 slot);
  void free_if_done(u32 group);

  // A batch keeps its answers until it has all; a stream sends each at once.
  void answer(u32 group, u32 index, const ResponseView& response);
  void send_batch(u32 group);
  void end(u32 group, const Status& status);
  // Ends a stream without unanswered items, on a draining server.
  void end_drained(u32 group);

  // Between hold and resume no message of the call is delivered.
  void hold(u32 group);
  template <class MayGo>
  void resume_held(MayGo may_go) {
    if (groups_.any_held()) groups_.resume(may_go, [this](CallId call) { attachment_->resume(call); });
  }

 private:
  void keep_answer(Group& group, u32 index, const ResponseView& response);
  void send_answer(u32 group, const ResponseView& response);

  const Attachment& attachment_;
  ModelRoutes& routes_;
  CallCounts& counts_;
  const TurnClock& clock_;
  Groups groups_;
};

}  // namespace fastqps::front

// Decides which calls are traced, and which have a line in the access log, as refused ones have. Fills their records
// while they run, and writes them to the segment when they end. The supervisor turns records into spans and lines.
// Nothing here waits.
#pragma once
#include <string_view>
#include <vector>

#include "contract/status.h"
#include "core/layout.h"
#include "transport/rpc/seeds.h"

namespace fastqps::transport {

struct Call;
struct DoorState;

// The destination of records, and the share of undecided calls to trace: threshold / 2^64.
struct TraceSource {
  TraceRing* ring = nullptr;  // nullptr: nothing is recorded
  u64 threshold = 0;
  bool forwards = false;   // of an edge: servers hear of the client's span even if none is traced here
  bool spans = true;       // calls are traced
  u64 line_threshold = 0;  // the share of all calls for the access log
};

class Tracer {
 public:
  Tracer(DoorState& door, TraceSource source) : door_(door), source_(source) {}
  ~Tracer();
  Tracer(const Tracer&) = delete;

  bool on() const { return source_.ring || source_.forwards; }
  bool records() const { return source_.ring; }
  bool traces() const { return source_.ring && source_.spans; }

  // A request's head is complete: decides, only while on(). parent: its traceparent, empty if it has none; state: the
  // list of its tracestate headers.
  void begin(Call& call, std::string_view parent, std::string_view state);
  // The same of a call that is refused before it reaches a method, also of one that would not be traced. It may have a
  // line.
  void begin_refused(Call& call);
  // The same of a request that is refused before it becomes a call.
  void refused(StatusCode code);
  // A traced call has ended, with or without a status.
  void end(Call& call, StatusCode code);
  // An item of a traced call of many, which has ended. `record`: the call's, with what is the item's own; of an edge's
  // item, complete.
  void item(const TraceRecord& record);
  // Ids are never all zero: that means none.
  void random_bytes(u8* out, u32 bytes);
  // The turn's answers are written.
  void flushed() {
    if (!ended_.empty()) publish_ended();
  }

 private:
  // Records of one turn that have ended, and those in the ring. Lines of the log leave half of them to spans.
  static size_t places_for(const TraceRecord& record) {
    return record.uses & kTraceSpans ? kTraceEntries : kTraceEntries / 2;
  }

  bool has_line() { return source_.line_threshold && random_.next() < source_.line_threshold; }
  TraceRecord* make(u8 uses, Rpc method, u64 received_ns);  // nullptr: no memory
  void end(TraceRecord* record, StatusCode code);
  void publish_ended();
  void publish(const TraceRecord& record);
  void count_dropped(const TraceRecord& record);

  DoorState& door_;
  const TraceSource source_;
  Seeds random_;
  std::vector<TraceRecord*> ended_;  // wait for the end of the turn: the time of their last byte
};

}  // namespace fastqps::transport

// HTTP/1.1 over one connection: requests one after another, and their responses in the same order.
//
// A few requests may be under way at once (pipelining). The next ones wait in the kernel, or in rest_.
#pragma once
#include <string>

#include "transport/calls/call_session.h"
#include "transport/calls/request_head.h"
#include "transport/http1/request_parser.h"

namespace fastqps::transport {

class Http1Session final : public CallSession, private RequestSink {
 public:
  Http1Session(DoorState& door, Connection& connection);
  ~Http1Session();
  Http1Session(const Http1Session&) = delete;

  // ---- for its connection
  void receive(const u8* data, u32 bytes) override;
  bool end_of_input() override;
  bool wants_input() const override { return !full_of_requests(); }
  bool has_queued() override;
  void deliver_queued() override;
  bool fill(OutputBuffer& output) override;
  bool backlogged(u32 unsent) const override;
  After flushed(bool unsent, bool input_ended) override;
  u64 due() const override;
  void on_timer() override;
  void retire(Retire reason, u64 grace_ns) override;
  void dismiss() override;
  void end_flood(const char* text) override;
  void drop() override;

  // ---- for its calls
  void start_answer(Call& call) override;
  void resume_answer(Call& call) override;
  void answer_status(Call& call, const EncodedStatus* status, const RefusalHeaders& headers) override;
  void end_answer(Call& call, const EncodedStatus& status) override;
  void reset(Call& call, Reset why) override;
  void consume(Call& call, u32 bytes) override;

 private:
  static constexpr u32 kPipelined = 8;

  // The requests under way, oldest first. All but the newest are complete.
  class Pipeline {
   public:
    u32 size() const { return size_; }
    CallId front() const { return ids_[first_]; }
    void push(CallId id) { ids_[(first_ + size_++) % kPipelined] = id; }
    void pop() { first_ = (first_ + 1) % kPipelined, size_--; }
    void drop_last() { size_--; }
    void clear() { size_ = 0; }

   private:
    CallId ids_[kPipelined];
    u32 first_ = 0, size_ = 0;
  };

  // the parser's events
  bool on_request_line(std::string_view verb, std::string_view target) override;
  bool on_field(std::string_view name, std::string_view value) override;
  bool on_head(const Framing& framing) override;
  bool on_body(const u8* data, u32 bytes) override;
  bool on_end() override;

  u32 parse(const u8* data, u32 bytes);
  void parse_rest();
  void begin_request();
  bool count_head(size_t bytes);
  void refuse(u16 status, const char* why);
  // The rest of the newest request is read in any case, because its time runs.
  bool full_of_requests() const { return pipeline_.size() == kPipelined && !in_request_; }
  bool can_parse() const { return !last_seen_ && !full_of_requests() && !connection_.ending(); }
  Call* receiving();
  void write_head(OutputBuffer& output, Call& call);
  bool write_body(OutputBuffer& output, Call& call);
  void end_front(Call& call);
  void write_refusal(OutputBuffer& output);

  RequestParser parser_;
  RequestHead head_;
  Pipeline pipeline_;
  CallId receiving_{};       // whose body comes
  std::string rest_;         // bytes that are not parsed yet
  bool in_request_ = false;  // a part of one has come
  bool waits_ = false;       // rest_ is the beginning of something: more must come
  bool last_seen_ = false;   // no more requests are read
  bool closing_ = false;     // after what has been written
  bool broken_ = false;      // at once
  bool retired_ = false;
  bool served_ = false;      // there has been a request
  bool blank_line_ = false;  // before the next request
  bool expects_continue_ = false;
  u16 refused_ = 0;  // the status of a last response, to a request that is none; 0: none
  const char* why_refused_ = "";
  u32 head_bytes_ = 0, head_fields_ = 0;
  u64 request_since_ns_ = 0;  // of the head that is being received
  u64 close_idle_ns_ = kNever, close_by_ns_ = kNever;
  u64 age_at_ns_;
};

}  // namespace fastqps::transport

// Inflates compressed requests: short ones in the loop, those of more than 64 KiB on one worker thread.
#pragma once
#include <zlib.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "transport/rpc/fair_queue.h"
#include "transport/rpc/method.h"

namespace fastqps::transport {

// A call's grpc-encoding.
enum class Encoding : u8 { kIdentity, kGzip, kDeflate, kUnknown };

inline constexpr u32 kInflatedInLoopBytes = 64 << 10;

enum class InflateResult : u8 { kDone, kTooLarge, kCorrupt };

// One z_stream for each format, used again and again.
class Inflater {
 public:
  Inflater() = default;
  Inflater(const Inflater&) = delete;
  ~Inflater();
  // Inflates all members of one gzip file, or exactly one zlib stream, into out; kTooLarge: it does not fit. bytes_out
  // is how much it is.
  InflateResult inflate(Encoding encoding, const u8* data, u32 bytes, u8* out, u32 room, u32& bytes_out);

 private:
  z_stream streams_[2] = {};
  bool ready_[2] = {};
};

struct Inflated {
  CallId call;
  u32 connection;  // its index
  InflateResult result;
  std::string message;
};

class InflateWorker {
 public:
  // wake_fd: an eventfd that wakes the loop, not owned. message_bytes: the limit of an inflated message.
  InflateWorker(int wake_fd, u32 message_bytes) : wake_fd_(wake_fd), message_bytes_(message_bytes) {}
  ~InflateWorker();

  // Loop only. Returns false if too many jobs wait, in all or of this connection.
  bool push(CallId call, ConnectionId connection, Encoding encoding, const u8* data, u32 bytes);
  // Loop only. A job counts until it is released.
  std::vector<Inflated> take();
  void release(const Inflated& inflated);

 private:
  struct Job {
    CallId call;
    Encoding encoding;
    std::string bytes;
  };
  static constexpr u64 kJobs = 64;
  void work();

  const int wake_fd_;
  const u32 message_bytes_;
  std::mutex mutex_;
  std::condition_variable there_;
  FairQueue<Job> jobs_{kJobs};  // a job counts as 1, whatever its size: its result may be as large as a message can be
  std::vector<Inflated> done_;
  bool stop_ = false;
  std::thread thread_;  // started with the first job
};

}  // namespace fastqps::transport

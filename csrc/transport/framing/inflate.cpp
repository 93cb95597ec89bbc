#include "transport/framing/inflate.h"

#include <utility>

#include "core/wake.h"
#include "transport/rpc/fair_queue.h"

namespace fastqps::transport {

namespace {
constexpr int kMembers = 1024;  // of a gzip file: each costs time, and may be empty
}  // namespace

Inflater::~Inflater() {
  for (int i = 0; i < 2; i++)
    if (ready_[i]) inflateEnd(&streams_[i]);
}

InflateResult Inflater::inflate(Encoding encoding, const u8* data, u32 bytes, u8* out, u32 room, u32& bytes_out) {
  const int which = encoding == Encoding::kGzip ? 0 : 1;
  z_stream& stream = streams_[which];
  constexpr int kGzipFormat = 16 + MAX_WBITS, kZlibFormat = MAX_WBITS;
  if (ready_[which]) {
    inflateReset(&stream);
  } else {
    if (inflateInit2(&stream, which == 0 ? kGzipFormat : kZlibFormat) != Z_OK) return InflateResult::kCorrupt;
    ready_[which] = true;
  }
  stream.next_in = const_cast<u8*>(data);
  stream.avail_in = bytes;
  stream.next_out = out;
  stream.avail_out = room;
  int result = ::inflate(&stream, Z_FINISH);
  for (int members = 1; which == 0 && result == Z_STREAM_END && stream.avail_in && members < kMembers; members++) {
    inflateReset(&stream);
    result = ::inflate(&stream, Z_FINISH);
  }
  bytes_out = room - stream.avail_out;
  if (result == Z_STREAM_END) return stream.avail_in ? InflateResult::kCorrupt : InflateResult::kDone;
  if (result == Z_BUF_ERROR && stream.avail_out == 0) return InflateResult::kTooLarge;
  return InflateResult::kCorrupt;
}

InflateWorker::~InflateWorker() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    there_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool InflateWorker::push(CallId call, ConnectionId connection, Encoding encoding, const u8* data, u32 bytes) {
  std::lock_guard lock(mutex_);
  Job job{call, encoding, std::string(reinterpret_cast<const char*>(data), bytes)};
  if (!jobs_.push(connection, 1, std::move(job))) return false;
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  there_.notify_one();
  return true;
}

std::vector<Inflated> InflateWorker::take() {
  std::lock_guard lock(mutex_);
  return std::exchange(done_, {});
}

void InflateWorker::release(const Inflated& inflated) {
  std::lock_guard lock(mutex_);
  jobs_.release(inflated.connection, 1);
}

void InflateWorker::work() {
  work_in_background();
  Inflater inflater;
  std::string room;
  std::unique_lock lock(mutex_);
  while (true) {
    there_.wait(lock, [this] { return stop_ || !jobs_.empty(); });
    if (stop_) return;
    const auto [connection, held, job] = jobs_.pop();
    lock.unlock();
    give_way();
    room.resize(message_bytes_ + size_t(1));
    u32 bytes = 0;
    const InflateResult result =
        inflater.inflate(job.encoding, reinterpret_cast<const u8*>(job.bytes.data()), u32(job.bytes.size()),
                         reinterpret_cast<u8*>(room.data()), message_bytes_ + 1, bytes);
    const bool too_large = result == InflateResult::kTooLarge || bytes > message_bytes_;
    // Copied before the lock is taken: the loop takes it, too, and would wait for this thread's next turn on the CPU.
    Inflated inflated{job.call, connection, too_large ? InflateResult::kTooLarge : result,
                      result == InflateResult::kDone && !too_large ? room.substr(0, bytes) : std::string()};
    lock.lock();
    done_.push_back(std::move(inflated));
    lock.unlock();
    signal_fd(wake_fd_);
    lock.lock();
  }
}

}  // namespace fastqps::transport

#include "engine.h"

#include <netdb.h>

#include <chrono>
#include <cstring>

namespace loadgen {
namespace {

constexpr i64 kStartDelay = 5 * kMillisecond;  // so that every thread is ready when the first call is due
constexpr i64 kForever = i64(1) << 62;         // a window that ends with the schedule

i64 unix_ns() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return i64(t.tv_sec) * kSecond + t.tv_nsec;
}

}  // namespace

Engine::Engine(Options options) : options_(std::move(options)) {
  if (const std::string error = options_.error(); !error.empty()) throw std::invalid_argument(error);
  if (!options_.tls) return;
  std::string fault;
  tls_ = ClientTls::make({options_.tls_ca, options_.tls_cert, options_.tls_key, options_.tls_ca.empty()}, &fault);
  if (!tls_) throw std::invalid_argument("TLS: " + fault);
}

Engine::~Engine() { dismiss(); }

// Ends the threads, so that connect() can be called again.
void Engine::dismiss() {
  for (auto& worker : workers_) worker->abort();
  workers_.clear();
  board_.failure.clear();
  board_.connected = board_.ended = 0;
}

std::vector<Address> Engine::resolve() const {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int error = getaddrinfo(options_.host.c_str(), std::to_string(options_.port).c_str(), &hints, &found);
  if (error) throw ConnectError("cannot resolve \"" + options_.host + "\": " + gai_strerror(error));
  std::vector<Address> addresses;
  for (const addrinfo* at = found; at; at = at->ai_next) {
    Address& address = addresses.emplace_back();
    std::memcpy(&address.where, at->ai_addr, at->ai_addrlen);
    address.bytes = at->ai_addrlen;
  }
  freeaddrinfo(found);
  return addresses;
}

bool Engine::connect(i64 timeout_ns, const std::function<bool()>& interrupted) {
  if (!workers_.empty()) throw std::logic_error("connected already");
  const Target target{resolve(), tls_};
  for (u32 i = 0; i < options_.threads; i++) workers_.push_back(std::make_unique<Worker>(options_, i, target, board_));
  try {
    for (auto& worker : workers_) worker->launch(timeout_ns);
  } catch (...) {
    dismiss();
    throw;
  }
  const auto done = [&] { return board_.connected == workers_.size() || !board_.failure.empty(); };
  bool stopped = false;
  std::string failure;
  {
    std::unique_lock lock(board_.mutex);
    while (!stopped && !board_.changed.wait_for(lock, std::chrono::milliseconds(50), done)) {
      if (!interrupted) continue;
      lock.unlock();
      stopped = interrupted();
      lock.lock();
    }
    if (!stopped && board_.failure.empty()) return true;
    failure = board_.failure;
  }
  dismiss();
  if (stopped) return false;
  throw ConnectError(options_.host + ":" + std::to_string(options_.port) + ": " + failure);
}

void Engine::start(const Load& load) {
  if (workers_.empty()) throw std::logic_error("not connected");
  if (started_) throw std::logic_error("started already");
  if (const std::string error = load.error(options_); !error.empty()) throw std::invalid_argument(error);
  load_ = load;
  if (load.closed) load_.measure_until = load.duration;
  if (load_.measure_until >= kForever) load_.measure_until = load.times.empty() ? 1 : load.times.back() + 1;
  started_ = true;
  const i64 now = now_ns();
  result_.start_monotonic_ns = now + kStartDelay;
  result_.start_unix_ns = unix_ns() + kStartDelay;
  for (auto& worker : workers_) worker->begin(load_, result_.start_monotonic_ns);
}

void Engine::stop(std::optional<i64> grace_ns) {
  if (!started_ || wait(0)) return;
  const i64 now = now_ns();
  if (stop_ns_ == kNever) stop_ns_ = now;
  for (auto& worker : workers_) worker->stop(stop_ns_, now + grace_ns.value_or(options_.grace_ns));
}

bool Engine::wait(i64 timeout_ns) {
  std::unique_lock lock(board_.mutex);
  const i64 bounded = std::clamp<i64>(timeout_ns, 0, 1'000'000 * kSecond);
  return started_ && board_.changed.wait_for(lock, std::chrono::nanoseconds(bounded), [&] { return ended(); });
}

// An interval is handed out when every thread is through with it.
std::vector<Interval> Engine::poll() {
  std::vector<Interval> out;
  for (;;) {
    u64 first = UINT64_MAX;
    for (auto& worker : workers_) {
      std::lock_guard lock(worker->recorder().mutex);
      const Recorder& recorder = worker->recorder();
      if (recorder.finished.empty() && !recorder.all_finished) return out;
      if (!recorder.finished.empty()) first = std::min(first, recorder.finished.front().index);
    }
    if (first == UINT64_MAX) return out;
    Interval& merged = out.emplace_back();
    merged.index = first;
    for (auto& worker : workers_) {
      std::lock_guard lock(worker->recorder().mutex);
      auto& finished = worker->recorder().finished;
      if (finished.empty() || finished.front().index != first) continue;
      merged.merge(finished.front());
      finished.pop_front();
    }
  }
}

const RunResult& Engine::result() {
  if (!wait(0)) throw std::logic_error("the run has not ended");
  if (merged_) return result_;
  merged_ = true;
  for (auto& worker : workers_) {
    worker->join();
    result_.tally.merge(worker->recorder().tally);
  }
  auto& samples = result_.tally.samples;
  if (samples.size() > options_.samples_max) samples.resize(options_.samples_max);
  const i64 stop = stop_ns_ == kNever ? kNever : stop_ns_ - result_.start_monotonic_ns;
  result_.stopped = stop_ns_ != kNever;
  result_.measure_from_ns = load_.measure_from;
  result_.measure_until_ns = std::max(std::min(load_.measure_until, stop), result_.measure_from_ns);
  return result_;
}

}  // namespace loadgen

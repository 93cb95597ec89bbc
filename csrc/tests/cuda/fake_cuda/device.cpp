// The fake devices: streams, clock, faults.
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <random>
#include <sstream>
#include <thread>

#include "fake_cuda.h"

namespace fake {

// Never destroyed: streams may run until the process is gone.
Knobs& knobs = *new Knobs;
Device (&devices)[kDevicesMax] = *reinterpret_cast<Device (*)[kDevicesMax]>(new Device[kDevicesMax]);

Knobs::Knobs() {
  for (const char* name :
       {"copy_delay_ns", "graph_ns", "hold_graph", "fail_graph", "fail_launch", "fail_copy", "hang_graph", "inline"})
    values[name] = 0;
  values["devices"] = 2;
  values["memory_bytes"] = int64_t(1) << 36;
  values["clock_offset_ns"] = 1'700'000'000'000'000'000;
  values["clock_drift_ppb"] = 30'000;
  std::istringstream all(std::getenv("FASTQPS_FAKE_CUDA") ? std::getenv("FASTQPS_FAKE_CUDA") : "");
  for (std::string one; std::getline(all, one, ',');) {
    const size_t at = one.find('=');
    if (at != std::string::npos && set(one.substr(0, at), std::strtoll(one.c_str() + at + 1, nullptr, 10))) continue;
    std::fprintf(stderr, "FASTQPS_FAKE_CUDA: '%s' is no knob\n", one.c_str());
    std::abort();
  }
}

bool Knobs::set(const std::string& name, int64_t value) {
  const auto found = values.find(name);
  if (found == values.end()) return false;
  found->second = value;
  return true;
}

bool Knobs::hits(const char* name) {
  std::atomic<int64_t>& left = values.at(name);
  int64_t n = left;
  while (n > 0 && !left.compare_exchange_weak(n, n - 1)) {}
  return n == 1;
}

void Device::synchronize() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return !waiting || fault; });
}

void Device::break_down(int code) {
  const std::lock_guard lock(mutex);
  fault = code;
  changed.notify_all();
}

Stream::Stream(Device& device) : device(device), inline_(knobs["inline"]) {
  if (!inline_) std::thread([this] { run(); }).detach();
}

void Stream::push(std::function<void()> task) {
  if (inline_) return task();
  const std::lock_guard lock(device.mutex);
  tasks_.push_back(std::move(task));
  waiting_++, device.waiting++;
  more_.notify_one();
}

void Stream::synchronize() {
  std::unique_lock lock(device.mutex);
  device.changed.wait(lock, [this] { return !waiting_ || device.fault; });
}

void Stream::close() {
  if (inline_) return delete this;
  const std::lock_guard lock(device.mutex);
  closed_ = true;
  more_.notify_one();
}

void Stream::run() {
  pthread_setname_np(pthread_self(), "fake stream");
  std::unique_lock lock(device.mutex);
  for (;;) {
    more_.wait(lock, [this] { return closed_ || !tasks_.empty(); });
    if (tasks_.empty()) break;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    if (!device.fault) task();
    lock.lock();
    waiting_--, device.waiting--;
    device.changed.notify_all();
  }
  lock.unlock();
  delete this;
}

void Graph::run(bool fails, bool hangs, Device& device) const {
  const int64_t begun = clock_ns();
  if (stamps) stamps[0] = begun, stamps[1] = 0;
  if (fails) return device.break_down(kIllegalAddress);
  while (hangs) pause();
  function(user);
  sleep_ns(begun + knobs["graph_ns"] - clock_ns());
  while (knobs["hold_graph"]) sleep_ns(1'000'000);
  if (stamps) stamps[1] = clock_ns();
}

int64_t clock_ns() {
  static const auto monotonic = [] {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return int64_t(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
  };
  static const int64_t begun = monotonic();
  const int64_t now = monotonic();
  const auto drift = int64_t(double(now - begun) * double(knobs["clock_drift_ppb"]) * 1e-9);
  return now + drift + knobs["clock_offset_ns"];
}

void sleep_ns(int64_t ns) {
  if (ns <= 0) return;
  const timespec t{ns / 1'000'000'000, ns % 1'000'000'000};
  nanosleep(&t, nullptr);
}

int64_t random_below(int64_t n) {
  static thread_local std::minstd_rand random(std::random_device{}());
  return n > 0 ? std::uniform_int_distribution<int64_t>(0, n)(random) : 0;
}

}  // namespace fake

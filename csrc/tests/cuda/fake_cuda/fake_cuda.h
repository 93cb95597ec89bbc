// A CUDA runtime without a GPU, for tests: a library with the exported names of libcudart. Streams are threads, device
// memory is shared memory, a graph is a function that its maker registers (fakeGraphCreate). What a real device does to
// careless code it does too, only more often: copies read their source late, and an error stays for good.
//
// Knobs, by fakeSet or in the environment (FASTQPS_FAKE_CUDA="copy_delay_ns=20000,fail_graph=7"):
//   devices            how many there are (2)
//   inline             1: a stream made from now on does its work in the thread that gives it, at once
//   copy_delay_ns      the most that a copy waits, at random, before it reads
//   graph_ns           the least that a graph takes
//   hold_graph         while it is not 0, graphs begin and do not end
//   fail_graph         the n-th graph launch from now on faults when it runs: error 700, for good
//   fail_launch        the n-th graph launch from now on returns error 719, for good
//   fail_copy          the n-th asynchronous copy from now on, likewise
//   hang_graph         the n-th graph launch from now on never ends
//   memory_bytes       of each device
//   clock_offset_ns, clock_drift_ppb   of the devices' clock against CLOCK_MONOTONIC
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>

namespace fake {

inline constexpr int kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 101, kInvalidContext = 201, kInvalidHandle = 400,
                     kNotReady = 600, kIllegalAddress = 700, kLaunchFailure = 719;
inline constexpr int kDevicesMax = 8;

struct Knobs {
  std::map<std::string, std::atomic<int64_t>> values;
  Knobs();
  bool set(const std::string& name, int64_t value);
  int64_t operator[](const char* name) const { return values.at(name); }
  bool hits(const char* name);  // counts down; true: this is the one
};
extern Knobs& knobs;

struct Device {
  std::atomic<int> fault{0};
  std::atomic<int64_t> used_bytes{0};
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t waiting = 0;  // tasks of all its streams
  void synchronize();
  void break_down(int code);
};
extern Device (&devices)[kDevicesMax];
Device& current();

// Runs its tasks one behind the other, in a thread of its own that lives until close(). After a fault it runs none.
class Stream {
 public:
  explicit Stream(Device& device);
  void push(std::function<void()> task);
  void synchronize();
  void close();
  Device& device;

 private:
  void run();
  const bool inline_;
  std::deque<std::function<void()>> tasks_;
  std::condition_variable more_;
  uint64_t waiting_ = 0;
  bool closed_ = false;
};

struct Event {
  std::atomic<uint64_t> recorded{0}, passed{0};
};

struct Graph {
  void (*function)(void*);
  void* user;
  int64_t* stamps;
  void run(bool fails, bool hangs, Device& device) const;
};

int64_t clock_ns();
void sleep_ns(int64_t ns);
int64_t random_below(int64_t n);

// Device memory, and the same of other processes.
void* allocate(size_t bytes);
bool release(void* pointer);
int export_memory(char (&handle)[64], void* pointer);
int import_memory(void** pointer, const char (&handle)[64]);
bool close_import(void* pointer);
void remember_pinned(void* pointer, size_t bytes);
bool forget_pinned(void* pointer);
bool is_pinned(const void* pointer, size_t bytes);

}  // namespace fake

// One thread of the generator: its connections, its part of the schedule, and the loop that sends, receives and sleeps.
#pragma once
#include <atomic>
#include <condition_variable>
#include <memory>
#include <thread>

#include "connection/connection.h"
#include "thread.h"

namespace loadgen {

// Where threads tell their engine what it waits for.
struct Board {
  std::mutex mutex;
  std::condition_variable changed;
  u32 connected = 0, ended = 0;  // threads whose connections all stand; that are through
  std::string failure;           // why a first connection failed
};

class Worker {
 public:
  Worker(const Options& options, u32 index, const Target& target, Board& board);
  ~Worker();

  void launch(i64 connect_timeout_ns);
  // The run: `load` and what it points at outlive the worker.
  void begin(const Load& load, i64 start_ns);
  // No more sends after this instant, and the end at that one at the latest.
  void stop(i64 instant_ns, i64 grace_until_ns);
  void abort();
  void join();

  Recorder& recorder() { return context_.recorder; }
  const std::vector<std::unique_ptr<Connection>>& connections() const { return connections_; }
  // From the start to the end of the run.
  const ThreadTime& used() const { return used_; }
  i64 slept_ns() const { return slept_ns_; }

 private:
  void run();
  void turn();
  void look_for_orders();
  void take_up();
  void watch_connecting();
  void roll_intervals();
  void send();
  bool nobody_answers() const;
  void give_up_late();
  void flush();
  void tick_connections();
  bool over();
  void settle();
  void sleep();
  i64 wake_ns() const;
  void wake();

  const Options& options_;
  const u32 index_;
  Board& board_;
  Context context_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Connection*> flushing_;
  std::unique_ptr<Schedule> schedule_;
  std::thread thread_;
  int wake_fd_ = -1;

  std::atomic<const Load*> load_{nullptr};
  std::atomic<i64> start_ns_{0}, stop_ns_{kNever}, grace_until_ns_{kNever};
  std::atomic<bool> abort_{false};

  bool connected_ = false, more_to_send_ = false, stopped_ = false;
  i64 end_ns_ = kNever;  // of the grace, once nothing more is to be sent
  ThreadTime used_;
  i64 slept_ns_ = 0, connect_timeout_ns_ = 0;
};

}  // namespace loadgen

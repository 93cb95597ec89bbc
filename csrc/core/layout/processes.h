// The states of the processes, of the server and of its devices. In brackets: who writes a word (layout.h).
#pragma once
#include "core/layout/limits.h"

namespace fastqps {

// kLameDuck: the server serves as before but reports not ready, so that clients leave before it refuses them.
enum class Phase : u32 { kStarting = 0, kServing = 1, kLameDuck = 2, kDraining = 3, kStopping = 4 };
struct alignas(64) SupervisorLine {
  std::atomic<u32> deaths;   // [S] grows at every published death of a dispatcher; doors settle when it changes
  std::atomic<Phase> phase;  // [S]
  std::atomic<u64> drain_deadline_ns;  // [S]
  std::atomic<u32> flips;              // [S] grows whenever another generation of a model begins to serve
  std::atomic<u64> poison_until_ns;    // [D, by compare-and-swap] end of the doors' last PoisonMark; 0: none
};

// The load of the whole server, for load reports. Written ten times a second. Each value is read whole, and none is
// older than updated_ns.
struct alignas(64) LoadLine {
  std::atomic<double> utilization;         // [S] of the server's capacity, mean of 10 s; above 1 beyond it
  std::atomic<double> cpu_utilization;     // [S] of the server's CPUs, 0 to 1
  std::atomic<double> memory_utilization;  // [S] of the container's or the machine's memory, 0 to 1
  std::atomic<double> requests_per_second, errors_per_second;  // [S] items; errors that are not the clients' fault
  std::atomic<double> queue_wait_s;                            // [S] p95 of the last 10 s
  std::atomic<double> items_waiting, items_running;            // [S] now
  std::atomic<u64> updated_ns;                                 // [S] stored last, with release; 0: never written
};
static_assert(std::atomic<double>::is_always_lock_free);

// A process's sleep word: sleeps so far << 2 | mode. Only the sleeper changes it (S once the process is reaped).
enum Mode : u64 { kBusy = 0, kHungry = 1, kAsleep = 2 };

struct alignas(64) PoisonMark {
  std::atomic<u64> fingerprint, until_ns;
};

// Processes of a front door whose tokenizers are not native: one that loads them, and one for each lane of texts.
inline constexpr u32 kTokenizerProcesses = 3;

struct alignas(64) DoorLine {
  std::atomic<u64> sleep;                     // [D]
  alignas(64) std::atomic<u64> heartbeat_ns;  // [D] its heartbeat thread
  std::atomic<u32> connections;               // [D] open now; S sets 0 when it is dead
  std::atomic<u32> live;                      // [S] 1 from start to reaping
  std::atomic<u32> ready;                     // [D] serves
  std::atomic<u32> slots_used;                // [D]
  std::atomic<u32> running;                   // [D] requests that it has seen claimed by a dispatcher
  std::atomic<u32> pid;                       // [S]
  std::atomic<u64> turn_started_ns;           // [D] start of its loop's turn; 0 while it sleeps. Reveals a hung loop
  std::atomic<u32> flips_seen;  // [D] value of flips; new requests go to the generations that it made serve
  std::atomic<u64> lost_items;  // [D] accepted, ended UNAVAILABLE; S adds those of a dead door. All incarnations
  std::atomic<u32> tokenizers[kTokenizerProcesses];  // [D] their pids; 0: none
  PoisonMark poison[kPoisonEntries];  // [D] fingerprints of requests that killed dispatchers; all doors read them
};

struct alignas(64) DispatcherLine {
  std::atomic<u64> sleep;                     // [d]
  alignas(64) std::atomic<u32> dead_epoch;    // [S] incarnations up to this one are dead and reaped
  std::atomic<u32> epoch;                     // [S] the incarnation that runs, set before it starts
  std::atomic<u32> route;                     // [S]
  std::atomic<u32> pid;                       // [S]
  std::atomic<u32> device;                    // [S] index of the device that it runs on
  alignas(64) std::atomic<u64> heartbeat_ns;  // [d] its heartbeat thread
  std::atomic<u64> step_started_ns;           // [d] oldest step on the device; 0: none
  std::atomic<u32> ready;                     // [d] has run a real batch
  std::atomic<u64> items_done;                // [d] all incarnations; doors take the completion rate from it
  std::atomic<u64> step_usual_ns;             // [d] moving average, from claim to answer, without stalls
  std::atomic<u32> running;                   // [d] sequences that generate now
  std::atomic<u64> steps_done;                // [d] all incarnations, with canaries; growth is forward progress
  std::atomic<u64> canary_ns;                 // [d] how long its newest canary took, from claim to answer
};

// The state of a device that its dispatchers share.
struct alignas(64) DeviceLine {
  std::atomic<u64> sim_until_ns;  // [d, by compare-and-swap] a modelled device's work is reserved up to here
};

}  // namespace fastqps

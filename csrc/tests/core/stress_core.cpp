// Drives the real shared-memory core, with a made-up server on top, while its processes are killed, stopped and
// poisoned.
//
//   stress_core threads [seconds] [mode]  dispatchers are threads that "die" at random points; for -fsanitize=thread
//   stress_core procs [seconds] [mode]  processes with eventfds; the parent is the supervisor. mode: stress_world.h
//   stress_core orphans                 kills the supervisor: every child must be gone at once
//   stress_core short                   a few seconds of each, as `make native-test` runs it
//
// What it proves: none lost, none answered twice, none swapped, no torn answer, no slot left over, on this machine.
// What it does not: anything about weaker memory models (csrc/tests/model/order.cpp) or schedules that did not happen
// (*.pml).
#define FASTQPS_POINTS  // before any header of core: stress_world.h
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <memory>
#include <random>
#include <string_view>

#include "core/heartbeat.h"
#include "tests/core/stress_generator.h"

namespace fastqps::stress {
namespace {

// ---- dispatcher: one batch on the device, the next one claimed ahead

struct Dispatcher {
  Claimer claimer;
  BatchLimits limits;
  u32 in_flight = 0;
  bool suspect_runs = false;

  void fenced() { world->wrong++, std::abort(); }
  void answer_dropped(const Batch& batch) {
    for (const auto& [claim, code] : batch.dropped) {
      if (!claimer.launch(claim)) fenced();
      claimer.slot(claim).status = u16(code);
      claimer.slot(claim).kind = Answer::kNone;
      if (!claimer.finish(claim)) fenced();
    }
    if (!batch.dropped.empty()) claimer.publish();
  }
  void launch(const Batch& batch) {
    bool poison = false;
    for (const Claim& c : batch.claims) {
      poison |= !is_canary(c) && poisonous(id_of(claimer.slot(c)));
      if (is_canary(c) && (in_flight || batch.claims.size() > 1 || !batch.canary)) world->wrong++;
      if (!claimer.launch(c)) fenced();
    }
    u32 tokens = 0;
    for (const Claim& c : batch.claims) tokens += c.n_tokens;
    bool alone = !in_flight && batch.claims.size() == 1;
    if (suspect_runs || (batch.suspect && !alone) || tokens != batch.n_tokens || tokens > limits.tokens ||
        batch.claims.size() > limits.items)
      world->wrong++;
    in_flight++, suspect_runs = batch.suspect;
    if (poison) die_of_poison();
  }
  void scatter(Batch& batch) {
    for (const Claim& c : batch.claims) {
      compute(claimer.slot(c));
      if (!claimer.finish(c)) fenced();
    }
    claimer.publish();
    batch.clear();
    if (--in_flight == 0) suspect_runs = false;
  }
};

void dispatcher(u32 me, u32 epoch) {
  random_state = epoch * 7919 + me * 104729 + 17;
  if (mode & kGenerate) return generator(me, epoch);
  BatchLimits limits{.items = 4, .tokens = 40, .delay_ns = mode & kDelay ? 300'000u : 0};
  Dispatcher d{Claimer(segment, &fds, me, epoch, 0), limits};
  Batch runs, next;
  while (world->stop.load(kRelaxed) != 2) {
    bool ahead = d.in_flight > 0;
    const ClaimMode claim_mode = !ahead ? ClaimMode::kFree : mode & kLanes ? ClaimMode::kLaneFree : ClaimMode::kAhead;
    bool claimed = d.claimer.next(next, claim_mode, limits, ahead ? 0 : timeout_ns());
    d.claimer.read_controls(next, [](u32, u32, u32) {});
    if (claimed) {
      world->ahead += ahead;
      d.answer_dropped(next);
      if (!next.claims.empty()) d.launch(next);
    }
    if (!runs.claims.empty()) d.scatter(runs);
    std::swap(runs, next);
  }
}

// ---- front door with a made-up client

struct Client {
  u32 door, waiting = 0;
  u64 ids[kSlots] = {};  // by slot: accepted and not answered, or 0
  Stream streams[kSlots] = {};
  Slab<Client>* slab = nullptr;

  void accept(u32 slot, u64 id) {
    ids[slot] = id, waiting++;
    streams[slot] = {};
    world->open[door][slot] = id;
    world->ledger[id] = kAccepted;
  }
  void close(u32 slot, u64 id, Entry as) {
    if (ids[slot] != id || world->ledger[id].exchange(as) != kAccepted) world->twice++;
    ids[slot] = 0, waiting--;
    world->open[door][slot] = 0;
    world->answers++;
  }
  void answer(u32 i, u64 id, Verdict verdict) {
    Slot& slot = segment.slot(door, i);
    Entry as = verdict == Verdict::kUnavailable ? kUnavailable : kInternal;
    if (verdict == Verdict::kDone) {
      as = slot.status == 0 ? kAnswered : kExpired;
      bool good = slot.status == 0   ? answered(i, slot, id) && !poisonous(id)
                  : slot.status == 4 ? slot.deadline_ns && now_ns() >= slot.deadline_ns
                                     : false;  // cancelled ones were answered by us
      if (!good) world->wrong++;
    }
    // A dispatcher's death ends a stream that has begun, and no other. Without other kills, only the poison itself gets
    // four strikes: who merely shared its batch runs alone afterwards.
    bool killed = threads || (mode & (kKillDispatchers | kStops));
    if (verdict == Verdict::kBroken ? !streams[i].sent : as == kInternal && !killed && !poisonous(id)) world->wrong++;
    close(i, id, as);
  }
  bool answered(u32 i, Slot& slot, u64 id) {
    if (!(mode & kGenerate)) return answered_rightly(slot, id);
    return slot.kind == Answer::kTokens && slot.n_values == tokens_of(id) && streams[i].take(slot, id, slot.n_values);
  }
  // It reads along, and sends it or holds it back. Sometimes it has had enough.
  void progress(u32 i, u64 id) {
    Stream& stream = streams[i];
    const u32 before = stream.read, dice = random_number() % 16;
    if (ids[i] != id || !stream.take(segment.slot(door, i), id, segment.slot(door, i).n_made.load(kAcquire)))
      world->wrong++;
    if (stream.read == before) return;
    world->streamed += stream.read - before;
    if (dice < 8) {
      world->begun += !stream.sent;
      stream.sent = stream.read;
      slab->begun(i);
    }
    if ((mode & kCancels) && dice % 8 == 0 && slab->cancel(i, Control::kStop) != Cancel::kDone) close(i, id, kStopped);
  }
  void restarted(u32 i, u64) {
    if (streams[i].sent) world->wrong++;  // never again: its client has a part of it
    streams[i] = {};
  }
  void released(u32, u64) {}
  void expect(u32) {}
  void expect_item(u32) {}
};

struct Door {
  Client client;
  Slab<Client> slab{segment, &fds, client.door, client};
  u64 lost_seen = 0;

  // With progress in half of an output ring, what settles slots between two drains can lose the hint of an end: a tick
  // of the product finds it.
  void find_lost() {
    if (!threads && !(mode & (kKillDispatchers | kStops))) return;
    u64 lost = 0;
    for (u32 d = 0; d < kDispatchers; d++) lost += segment.dispatcher_stats(d).lost_hints.load(kRelaxed);
    if (lost != lost_seen) lost_seen = lost, slab.settle_all();
  }

  void send(u32 limit) {
    bool put = false;
    for (u32 burst = 1 + random_number() % 8; burst-- && client.waiting < limit;) {
      i64 slot = slab.take();
      if (slot < 0) break;
      u64 id = world->next_id.fetch_add(1, kRelaxed);
      if (id >= kIds) std::fprintf(stderr, "out of ids\n"), std::exit(2);
      fill(slab.slot(u32(slot)), id);
      client.accept(u32(slot), id);
      if (!slab.put(u32(slot), 0, random_number() % 3, id, now_ns())) {  // the ring is full
        client.close(u32(slot), id, kUnsent);
        slab.give_back(u32(slot));
        break;
      }
      put = true;
    }
    if (put) slab.publish();
  }
  void cancel(u32 i) {
    u64 id = client.ids[i];
    if (!id || poisonous(id)) return;
    if (slab.cancel(i) != Cancel::kDone) client.close(i, id, kCancelled);
  }
  void wait(i64 timeout) {
    if (slab.announce()) sleep_on(fds.door[client.door], timeout);
    slab.awake();
  }
};

void front_door(u32 me, u32 incarnation) {
  random_state = incarnation * 2654435761u + me + 1;
  Door door{Client{me}};
  door.client.slab = &door.slab;
  door.slab.adopt();
  u32 limit = mode & kOneByOne ? 1 : kSlots;
  i64 timeout = timeout_ns();
  u64 tick = now_ns();
  for (;;) {
    door.slab.drain();
    if (mode & kGenerate) door.find_lost();
    u32 stop = world->stop.load(kRelaxed);
    if (!stop) door.send(limit);
    if (!stop && random_number() % 16 == 0) door.slab.put_canary(random_number() % kDispatchers, now_ns());
    if ((mode & kCancels) && random_number() % 50 == 0) door.cancel(random_number() % kSlots);
    if ((timeout > 0 || threads) && now_ns() - tick > 20'000'000) {
      tick = now_ns();
      door.slab.settle_all();
      world->ticks++;
    }
    // used: also what is answered, but still held by a dispatcher
    if (stop && !door.slab.used() && !door.slab.canaries()) break;
    if (stop)
      door.wait(threads ? 0 : 20'000'000);
    else if (door.client.waiting >= limit || !door.slab.used())
      door.wait(timeout);
    else if (random_number() % 4 == 0)
      door.wait(threads ? 0 : 1);  // the next request of the client
  }
  world->requeued += door.slab.requeued(), world->suspects += door.slab.suspects();
  world->finished++;
}

// ---- threads

bool run_threads(double seconds, u32 what = kCancels | kDeadlines | kDelay) {
  threads = true, mode = what;
  make_world();  // no eventfds: their system calls would hide missing orders from TSan
  u64 start = now_ns();
  std::atomic<u32> deaths{0};
  std::vector<std::thread> doors, guards;
  for (u32 f = 0; f < kDoors; f++) doors.emplace_back(front_door, f, 1);
  for (u32 d = 0; d < kDispatchers; d++)
    guards.emplace_back([d, &deaths] {  // one supervisor per dispatcher
      for (u32 epoch = 1; world->stop.load(kRelaxed) != 2; epoch++) {
        std::thread([d, epoch] {
          mortal = true;
          try {
            dispatcher(d, epoch);
          } catch (Left) {}
        }).join();  // the thread's end happens before this: "reaped"
        if (world->stop.load(kRelaxed) == 2) break;
        publish_death(segment, fds, d, epoch);
        deaths++;
      }
    });
  while (double(now_ns() - start) < seconds * 1e9) usleep(10'000);
  world->stop = 1;
  for (u64 since = now_ns(); world->finished.load() < kDoors; usleep(1000))
    if (now_ns() - since > 20'000'000'000u) std::puts("STUCK: front doors do not come to an end"), std::_Exit(1);
  world->stop = 2;
  for (auto& t : doors) t.join();
  for (auto& t : guards) t.join();
  return report(double(now_ns() - start) * 1e-9, deaths, 0, 0);
}

// ---- processes

struct Child {
  bool is_door;
  u32 index, epoch = 0;
  pid_t pid = 0;
  bool finished = false, stopped = false;
  u64 stopped_until_ns = 0;
};

struct Supervisor {
  std::vector<Child> children;
  std::mt19937 random{12345};
  int parent_read = -1, parent_write = -1;  // orphans: children watch the pipe with the product's heartbeat
  u32 dispatchers_killed = 0, doors_killed = 0, stops = 0;

  void spawn(Child& c) {
    std::fflush(stdout);
    c.epoch++;
    c.stopped = false;
    if (!c.is_door) segment.dispatcher(c.index).epoch.store(c.epoch, kRelaxed);
    if ((c.pid = fork())) return;
    if (parent_write >= 0) close(parent_write);
    std::atomic<u64>& beat = c.is_door ? segment.door(c.index).heartbeat_ns : segment.dispatcher(c.index).heartbeat_ns;
    std::unique_ptr<Heartbeat> heart;
    if (parent_read >= 0) heart = std::make_unique<Heartbeat>(&beat, parent_read);
    c.is_door ? front_door(c.index, c.epoch) : dispatcher(c.index, c.epoch);
    _exit(0);
  }
  void start() {
    for (u32 d = 0; d < kDispatchers; d++) {
      fds.dispatcher[d] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
      children.push_back({false, d});
    }
    for (u32 f = 0; f < kDoors; f++) {
      fds.door[f] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
      children.push_back({true, f});
    }
    for (Child& c : children) spawn(c);
  }
  // Reaped: publish what that means, and replace it.
  bool reaped(Child& c, int status) {
    if (c.is_door && WIFEXITED(status)) return c.finished = true;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL) {
      std::printf("BAD: a child ended by itself, wait status %d\n", status);
      return false;
    }
    if (c.is_door) {
      doors_killed++;
      for (auto& open : world->open[c.index]) {
        u64 id = open.exchange(0);
        u8 accepted = kAccepted;
        if (id) world->ledger[id].compare_exchange_strong(accepted, kGone);
      }
    } else {
      dispatchers_killed++;
      publish_death(segment, fds, c.index, c.epoch);
    }
    spawn(c);
    return true;
  }
  void torment(u64 now) {
    for (Child& c : children)
      if (c.stopped && now > c.stopped_until_ns) kill(c.pid, random() % 3 ? SIGCONT : SIGKILL), c.stopped = false;
    Child& c = children[random() % children.size()];
    if ((mode & kStops) && random() % 8 == 0 && !c.stopped) {
      kill(c.pid, SIGSTOP);
      c.stopped = true, c.stopped_until_ns = now + random() % 200 * 1'000'000;
      stops++;
    } else if ((mode & (c.is_door ? kKillDoors : kKillDispatchers)) && random() % (c.is_door ? 8 : 4) == 0) {
      kill(c.pid, SIGKILL);
    }
  }
  void print_stuck() {
    std::puts("STUCK: nothing was answered for 8 s");
    for (u32 d = 0; d < kDispatchers; d++)
      std::printf("  dispatcher %u: sleep word %lu, dead epoch %u\n", d, segment.dispatcher(d).sleep.load(),
                  segment.dispatcher(d).dead_epoch.load());
    for (u32 f = 0; f < kDoors; f++) {
      std::printf("  front door %u: sleep word %lu, rings", f, segment.door(f).sleep.load());
      for (u32 k = 0; k < kClasses; k++)
        std::printf(" %lu..%lu", segment.request_ring(f, 0, k).head.load(), segment.request_ring(f, 0, k).tail.load());
      std::printf(", states");
      for (u32 i = 0; i < kSlots; i++) std::printf(" %u", u32(Word{segment.slot(f, i).state.load()}.state()));
      std::puts("");
    }
  }
  void end() {
    for (Child& c : children)
      if (!c.finished) kill(c.pid, SIGKILL), waitpid(c.pid, nullptr, 0);
  }
  // True: every front door has come to its end.
  bool run(double seconds) {
    u64 start = now_ns(), progress = start, answers = 0;
    for (;; usleep(1000 + random() % 3000)) {
      u64 now = now_ns();
      if (double(now - start) > seconds * 1e9 && !world->stop.load()) {
        world->stop = 1, progress = now;
        for (int fd : fds.door) signal_fd(fd);
      }
      bool all = true;
      for (Child& c : children) {
        int status;
        if (!c.finished && waitpid(c.pid, &status, WNOHANG) == c.pid && !reaped(c, status)) return false;
        all &= c.finished || !c.is_door;
      }
      if (all) return true;
      if (u64 n = world->answers; n != answers) answers = n, progress = now;
      if (now - progress > 8'000'000'000u) return print_stuck(), false;
      if (!world->stop.load())
        torment(now);
      else
        for (Child& c : children)
          if (c.stopped) kill(c.pid, SIGCONT), c.stopped = false;
    }
  }
};

bool run_processes(double seconds, u32 what) {
  threads = false, mode = what;
  make_world();
  u64 start = now_ns();
  Supervisor s;
  s.start();
  bool ended = s.run(seconds);
  world->stop = 2;
  s.end();
  for (u32 d = 0; d < kDispatchers; d++) world->lost_hints += segment.dispatcher_stats(d).lost_hints.load();
  return report(double(now_ns() - start) * 1e-9, s.dispatchers_killed, s.doors_killed, s.stops) && ended;
}

bool run_orphans() {
  int watched[2], alive[2];
  if (pipe(watched) || pipe(alive)) return false;
  pid_t boss = fork();
  if (!boss) {
    close(alive[0]);
    threads = false, mode = 0;
    make_world();
    Supervisor s;
    s.parent_read = watched[0], s.parent_write = watched[1];
    s.start();
    _exit(s.run(60) ? 0 : 1);
  }
  close(alive[1]), close(watched[1]);
  usleep(300'000);
  kill(boss, SIGKILL), waitpid(boss, nullptr, 0);
  pollfd p{alive[0], POLLIN, 0};
  bool gone = poll(&p, 1, 1000) == 1;  // end of file: the last copy of the write end is closed
  std::printf("%s: supervisor killed, its children are %s\n", gone ? "GOOD" : "BAD", gone ? "gone" : "still there");
  return gone;
}

bool run_short() {
  bool good = run_threads(2) && run_threads(1, kGenerate | kCancels | kDeadlines) &&
              run_threads(1, kLanes | kCancels | kDeadlines | kDelay);
#ifndef __SANITIZE_THREAD__  // it sees one process at a time
  for (u32 what : {16u, 129u, 139u, 32u, 95u, 223u, 385u, 512u + 1024 + 131, 2048u + 139, 2048u + 32 + 128, 4096u + 139,
                   4096u + 1024 + 32 + 128})
    good = good && (std::printf("mode %u: ", what), run_processes(1, what));
  good = good && run_orphans();
#endif
  return good;
}

}  // namespace
}  // namespace fastqps::stress

int main(int n, char** a) {
  using namespace fastqps::stress;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::string_view what = n > 1 ? a[1] : "";
  double seconds = n > 2 ? std::atof(a[2]) : 10;
  if (what == "threads") return n > 3 ? !run_threads(seconds, unsigned(std::atoi(a[3]))) : !run_threads(seconds);
  if (what == "procs") return !run_processes(seconds, n > 3 ? unsigned(std::atoi(a[3])) : 0);
  if (what == "orphans") return !run_orphans();
  if (what == "short") return !run_short();
  std::fprintf(stderr, "stress_core threads|procs|orphans|short [seconds] [mode]\n");
  return 2;
}

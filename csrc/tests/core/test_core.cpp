// Words, histograms, the segment, rings, and the scenarios of the protocol one step at a time. What runs at the same
// time is stress_core.cpp's.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstring>
#include <fstream>

#include "core/claimer.h"
#include "core/segment.h"
#include "core/slab.h"
#include "core/supervise.h"
#include "core/waiting.h"
#include "tests/made_segment.h"

using namespace fastqps;

TEST(word_packs_its_fields) {
  struct {
    State state;
    u32 seq, owner, epoch;
    u64 bits;
  } rows[] = {
      {State::kFree, 0, 0, 0, 0},
      {State::kQueued, 1, 0, 0, 0x0000'0001'0000'0001},
      {State::kClaimed, 2, 3, 4, 0x0000'0002'0000'4032},
      {State::kLaunched, 0xffffffff, 63, 0xfffff, 0xffff'ffff'ffff'f3f3},
      {State::kDone, 0x80000000, 255, 1, 0x8000'0000'0000'1ff4},
  };
  for (auto& r : rows) {
    Word w = Word::make(r.state, r.seq, r.owner, r.epoch);
    CHECK_EQ(w.bits, r.bits);
    CHECK(w.state() == r.state);
    CHECK_EQ(w.seq(), r.seq);
    CHECK_EQ(w.owner(), r.owner);
    CHECK_EQ(w.epoch(), r.epoch);
  }
  CHECK_EQ(control_slot(control_entry(7, Control::kStop, 0xabcdef)), 0xabcdefu);
  CHECK(control_op(control_entry(7, Control::kStop, 0xabcdef)) == Control::kStop);
  CHECK_EQ(entry_seq(control_entry(7, Control::kStop, 0xabcdef)), 7u);
  CHECK_EQ(entry_slot(ring_entry(9, 11)), 11u);
}

TEST(histogram_buckets_meet) {
  struct {
    u64 value;
    u32 index;
  } rows[] = {{0, 0},
              {7, 7},
              {8, 8},
              {15, 15},
              {16, 16},
              {17, 16},
              {18, 17},
              {31, 23},
              {32, 24},
              {35, 24},
              {36, 25},
              {1000, 63},
              {(u64(1) << 42) - 1, 319},
              {~u64(0), 319}};
  for (auto& r : rows) CHECK_EQ(Histogram::index(r.value), r.index);
  for (u32 i = 0; i + 1 < Histogram::kBuckets; i++) {
    CHECK_EQ(Histogram::index(Histogram::upper(i) - 1), i);
    CHECK_EQ(Histogram::index(Histogram::upper(i)), i + 1);
  }
  CHECK_EQ(Histogram::upper(Histogram::kBuckets - 1), u64(1) << 42);
  static Histogram h;
  h.record(1000, 3);
  CHECK_EQ(h.count.load(), 3u);
  CHECK_EQ(h.sum.load(), 3000u);
  CHECK_EQ(h.bucket[63].load(), 3u);
}

// ---- segment

static const Sizes kSizes{.doors = 2, .dispatchers = 3, .models = 1, .slots = 8, .max_tokens = 20, .answer_bytes = 64};

TEST(segment_refuses_bad_sizes) {
  struct {
    Sizes sizes;
    const char* error;
  } rows[] = {
      {{.doors = 0}, "front doors: 1 to 32"},
      {{.doors = 33}, "front doors: 1 to 32"},
      {{.dispatchers = 65}, "dispatchers: 1 to 64 in all"},
      {{.models = 17}, "models: 1 to 16"},
      {{.slots = 1}, "slots: a power of two from 2 to 1048576"},
      {{.slots = 12}, "slots: a power of two from 2 to 1048576"},
      {{.class_weights = {16, 0, 1}}, "class weights: at least 1"},
  };
  for (auto& r : rows) {
    auto made = Segment::create(r.sizes);
    CHECK_EQ(made.fd, -1);
    CHECK_EQ(made.error, r.error);
  }
}

TEST(segment_does_not_overlap) {
  Header h = Segment::plan(kSizes);
  u64 ring = Segment::ring_bytes(16);
  CHECK_EQ(ring, 128 + 16 * 8u);
  u64 edges[][2] = {{h.models, sizeof(Model)},
                    {h.routes, 2 * sizeof(Route)},
                    {h.supervisor, sizeof(SupervisorLine)},
                    {h.load, sizeof(LoadLine)},
                    {h.door_lines, 2 * sizeof(DoorLine)},
                    {h.dispatcher_lines, 3 * sizeof(DispatcherLine)},
                    {h.request_rings, 2 * 2 * 4 * ring},
                    {h.output_rings, 3 * 2 * ring},
                    {h.control_rings, 2 * 3 * Segment::ring_bytes(kControlEntries)},
                    {h.stats, 5 * sizeof(Stats)},
                    {h.cards, 2 * kCardBytes},
                    {h.slots, 2 * 8 * h.slot_stride}};
  u64 end = sizeof(Header);
  for (auto& [at, bytes] : edges) {
    CHECK(at >= end);
    CHECK_EQ(at % 4096, 0u);
    end = at + bytes;
  }
  CHECK(h.total_bytes >= end);
  CHECK_EQ(h.ids_offset, 320u);
  CHECK_EQ(h.answer_offset, 448u);  // 20 ids of 4 bytes, rounded up to a line
  CHECK_EQ(h.slot_stride, 576u);    // nine lines: odd
}

// Of the mapping that begins at this address, what is mapped in pages of 2 MiB; 0 as well where the kernel does not
// say.
static u64 huge_bytes(const void* begin) {
  std::ifstream smaps("/proc/self/smaps");
  char start[32];
  std::snprintf(start, sizeof start, "%lx-", reinterpret_cast<unsigned long>(begin));
  bool within = false;
  u64 kib = 0;
  for (std::string line; std::getline(smaps, line);) {
    if (line.starts_with(start)) within = true;
    if (within && std::sscanf(line.c_str(), "ShmemPmdMapped: %lu kB", &kib) == 1) break;
  }
  return kib << 10;
}

static void touch(const void* begin, u64 bytes) {
  for (u64 at = 0; at < bytes; at += 4096) (void)static_cast<const volatile char*>(begin)[at];
}

TEST(segment_has_huge_pages_where_the_kernel_makes_them) {
  constexpr u64 kHuge = 2 << 20;
  constexpr int kCollapse = 25;
  const int fd = memfd_create("one", MFD_CLOEXEC);
  CHECK_EQ(posix_fallocate(fd, 0, kHuge), 0);
  void* one = map_for_huge_pages(fd, kHuge);
  const bool collapsed = madvise(one, kHuge, kCollapse) == 0;
  const int why = errno;
  touch(one, kHuge);
  const bool seen = huge_bytes(one) == kHuge;
  munmap(one, kHuge);
  close(fd);
  CHECK_EQ(why_no_huge_pages(), collapsed ? "" : std::strerror(why));
  if (!collapsed || !seen) {
    std::printf("skipped: %s\n", collapsed ? "the kernel does not show huge pages" : std::strerror(why));
    return;
  }
  Sizes sizes = kSizes;
  sizes.slots = 8192;
  const Segment segment = test::made_segment(sizes);
  const u64 bytes = segment.header().total_bytes;
  CHECK(bytes > 2 * kHuge);
  touch(&segment.header(), bytes);
  CHECK_EQ(huge_bytes(&segment.header()), bytes / kHuge * kHuge);
  munmap(&segment.header(), bytes);
}

TEST(segment_lies_where_huge_pages_can_be_mapped) {
  auto made = Segment::create(kSizes);
  std::string error;
  const Segment first = Segment::attach(made.fd, &error), second = Segment::attach(made.fd, &error);
  CHECK_EQ(reinterpret_cast<uintptr_t>(&first.header()) % (2 << 20), 0u);
  CHECK_EQ(reinterpret_cast<uintptr_t>(&second.header()) % (2 << 20), 0u);
  first.supervisor().phase.store(Phase::kDraining, kRelease);  // both are the same memory
  CHECK_EQ(u32(second.supervisor().phase.load(kAcquire)), u32(Phase::kDraining));
  const u64 last = first.header().total_bytes - 1;
  CHECK_EQ(reinterpret_cast<char*>(&second.header())[last], 0);
  CHECK(first.lock() || errno == ENOMEM || errno == EPERM);
  close(made.fd);
}

TEST(segment_attaches_only_to_its_own_kind) {
  auto made = Segment::create(kSizes);
  CHECK_EQ(made.error, "");
  std::string error;
  CHECK(Segment::attach(made.fd, &error).valid());
  Header h;
  CHECK_EQ(pread(made.fd, &h, sizeof h, 0), ssize_t(sizeof h));
  CHECK(h.boot_id[0] | h.boot_id[1]);
  auto refused = [&](auto change) {
    Header bad = h;
    change(bad);
    CHECK_EQ(pwrite(made.fd, &bad, sizeof bad, 0), ssize_t(sizeof bad));
    CHECK(!Segment::attach(made.fd, &error).valid());
    return error;
  };
  CHECK_EQ(refused([](Header& x) { x.magic++; }), "not a fastqps segment");
  const std::string other = "the segment was made by another build of fastqps (format ";
  CHECK_EQ(refused([](Header& x) { x.format = 99; }), other + "99)");
  CHECK_EQ(refused([](Header& x) { x.layout_hash++; }), other + std::to_string(kFormat) + ")");
  CHECK_EQ(refused([](Header& x) { x.control_rings += 64; }), other + std::to_string(kFormat) + ")");
  CHECK_EQ(refused([](Header& x) { x.sizes.slots = 16; }), other + std::to_string(kFormat) + ")");
  CHECK_EQ(ftruncate(made.fd, 4096), -1);  // sealed
  int shorter = memfd_create("short", MFD_CLOEXEC);
  CHECK_EQ(pwrite(shorter, &h, sizeof h, 0), ssize_t(sizeof h));
  CHECK(!Segment::attach(shorter, &error).valid());
  CHECK_EQ(error, "the segment is shorter than its header says");
  CHECK_EQ(ftruncate(shorter, 0), 0);
  CHECK(!Segment::attach(shorter, &error).valid());
  CHECK_EQ(error, "not a fastqps segment");
  close(shorter);
  close(made.fd);
}

TEST(segment_without_room_is_an_error_and_no_signal) {
  pid_t child = fork();
  if (!child) {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{64 << 10, 64 << 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    auto made = Segment::create(kSizes);
    _exit(made.fd == -1 && made.error.starts_with("shared segment of ") ? 0 : 1);
  }
  int status;
  waitpid(child, &status, 0);
  CHECK_EQ(status, 0);
}

// ---- one front door or two, up to three dispatchers, one step at a time

namespace {

struct Ending {
  u32 slot;
  u64 user;
  Verdict verdict;
};

struct Host : test::SlabHost {
  std::vector<Ending> answers;
  std::vector<u32> released_slots;
  void answer(u32 slot, u64 user, Verdict verdict) { answers.push_back({slot, user, verdict}); }
  std::vector<u32> progressed, restarts;
  void progress(u32 slot, u64) { progressed.push_back(slot); }
  void restarted(u32 slot, u64) { restarts.push_back(slot); }
  void released(u32 slot, u64) { released_slots.push_back(slot); }
};

// An encoder's look at its work: limits that never change, controls behind every claim.
struct Encoder : Claimer {
  BatchLimits limits;
  Encoder(Segment segment, const WakeFds* fds, u32 me, u32 epoch, BatchLimits batch)
      : Claimer(segment, fds, me, epoch, 0), limits(batch) {}
  bool next(Batch& batch, bool ahead, i64 timeout_ns) {
    bool claimed = Claimer::next(batch, ahead ? ClaimMode::kAhead : ClaimMode::kFree, limits, timeout_ns);
    read_controls(batch, [](u32, u32, u32) {});
    return claimed;
  }
};

// One, and the batch that it takes last.
struct Worker {
  Encoder claimer;
  Batch batch;
};

struct World : test::OwnSegment {
  Host hosts[2];
  std::vector<Slab<Host>> doors;

  explicit World(bool rerun = true, u32 n_doors = 1) : OwnSegment(kSizes) {
    segment.route(0).dispatchers.store(7);
    for (u32 f = 0; f < n_doors; f++) doors.emplace_back(segment, &fds, f, hosts[f], rerun).adopt();
  }
  Encoder claimer(u32 me, u32 epoch = 1, BatchLimits limits = {.items = 4, .tokens = 40}) {
    return Encoder(segment, &fds, me, epoch, limits);
  }
  Worker worker(u32 me, u32 epoch = 1, BatchLimits limits = {.items = 4, .tokens = 40}) {
    return {claimer(me, epoch, limits), {}};
  }
  // One request that nobody is shown; its slot. queued_ns orders doors.
  u32 hide(u32 tokens = 1, u32 kind = kNormal, u64 queued_ns = 1, u32 door = 0, u64 deadline_ns = 0) {
    i64 slot = doors[door].take();
    CHECK(slot >= 0);
    Slot& s = doors[door].slot(u32(slot));
    s.n_tokens.store(tokens);
    s.deadline_ns = deadline_ns;
    CHECK(doors[door].put(u32(slot), 0, kind, 100 + u64(slot), queued_ns));
    return u32(slot);
  }
  u32 put(u32 tokens = 10, u32 kind = kNormal, u64 queued_ns = 1, u32 door = 0, u64 deadline_ns = 0) {
    const u32 slot = hide(tokens, kind, queued_ns, door, deadline_ns);
    doors[door].publish();
    return slot;
  }
  // The only front door's next incarnation.
  Slab<Host>& reopen() {
    doors.clear();
    doors.emplace_back(segment, &fds, 0, hosts[0]).adopt();
    return doors[0];
  }
  Word word(u32 slot, u32 door = 0) { return {segment.slot(door, slot).state.load()}; }
  bool is(u32 slot, State state) { return word(slot).state() == state; }
  bool signalled(int fd) {
    u64 n;
    return read(fd, &n, sizeof n) == sizeof n;
  }
  void die(u32 d, u32 epoch) { publish_death(segment, fds, d, epoch); }
  const Ending& last() { return hosts[0].answers.back(); }
};

}  // namespace

static void run(Claimer& c, Batch& batch) {
  for (const Claim& claim : batch.claims) CHECK(c.launch(claim));
  for (const Claim& claim : batch.claims) {
    c.slot(claim).status = 0;
    CHECK(c.finish(claim));
  }
  c.publish();
}
static void serve(Encoder& c, Batch& batch) {
  CHECK(c.next(batch, false, 0));
  run(c, batch);
}
static std::vector<u32> slots_of(const Batch& batch) {
  std::vector<u32> slots;
  for (const Claim& c : batch.claims) slots.push_back(c.slot);
  return slots;
}
using List = std::vector<u32>;

TEST(request_goes_round) {
  World w;
  auto [c, b] = w.worker(0);
  u32 i = w.put(12);
  CHECK_EQ(w.word(i).bits, Word::make(State::kQueued, 1).bits);
  CHECK(c.next(b, false, 0));
  CHECK(slots_of(b) == List{i});
  CHECK_EQ(b.n_tokens, 12u);
  CHECK_EQ(w.word(i).bits, Word::make(State::kClaimed, 1, 0, 1).bits);
  CHECK(c.launch(b.claims[0]));
  CHECK(w.is(i, State::kLaunched));
  CHECK(c.finish(b.claims[0]));
  CHECK(w.is(i, State::kDone));
  w.doors[0].drain();  // not published yet
  CHECK_EQ(w.hosts[0].answers.size(), 0u);
  c.publish();
  w.doors[0].drain();
  CHECK_EQ(w.hosts[0].answers.size(), 1u);
  CHECK_EQ(w.last().user, 100u + i);
  CHECK(w.last().verdict == Verdict::kDone);
  CHECK(w.is(i, State::kFree));
  CHECK_EQ(w.doors[0].used(), 0u);
  CHECK(!c.next(b, false, 0));
}

TEST(unpublished_requests_are_invisible_until_sleep_at_the_latest) {
  World w;
  auto [c, b] = w.worker(0);
  w.hide(), w.hide();
  CHECK(!c.next(b, false, 0));
  CHECK(w.doors[0].announce());
  w.doors[0].awake();
  CHECK(c.next(b, false, 0));
  CHECK_EQ(b.claims.size(), 2u);
}

TEST(batch_keeps_its_limits) {
  World w;
  auto [c, b] = w.worker(0);
  for (u32 tokens : {10, 10, 10, 10, 10}) w.put(tokens);  // limits: 4 items, 40 tokens
  serve(c, b);
  CHECK_EQ(b.claims.size(), 4u);
  serve(c, b);
  CHECK_EQ(b.claims.size(), 1u);
  w.doors[0].drain();
  for (u32 tokens : {20, 15, 6, 1}) w.put(tokens);
  serve(c, b);
  CHECK_EQ(b.n_tokens, 35u);  // 6 more do not fit; what is behind them waits its turn
  serve(c, b);
  CHECK_EQ(b.n_tokens, 7u);
  Encoder small = w.claimer(1, 1, {.items = 4, .tokens = 8});
  w.doors[0].drain();
  w.put(12);  // larger than a batch: alone, never stuck
  serve(small, b);
  CHECK_EQ(b.n_tokens, 12u);
  w.doors[0].drain();
  w.put(1000);  // more than a slot holds: bytes of another process
  CHECK(c.next(b, false, 0));
  CHECK_EQ(b.n_tokens, 20u);
}

// Of 42 tokens that are taken one by one while every class has more, 32, 8 and 2: each class by its weight.
TEST(classes_share_by_weight) {
  World w;
  auto [c, b] = w.worker(0, 1, {.items = 1, .tokens = 40});
  u32 taken[kPriorities] = {}, kind_of[64] = {};
  const auto put = [&](u32 kind) { kind_of[w.put(1, kind)] = kind; };
  for (u32 kind : {kHigh, kNormal, kLow}) put(kind);
  for (u32 turn = 0; turn < 42; turn++) {
    CHECK(c.next(b, false, 0));
    const u32 kind = kind_of[slots_of(b)[0]];
    taken[kind]++;
    run(c, b);
    w.doors[0].drain();
    put(kind);
  }
  CHECK_EQ(taken[kHigh], 32u);
  CHECK_EQ(taken[kNormal], 8u);
  CHECK_EQ(taken[kLow], 2u);
}

TEST(a_class_that_had_nothing_comes_first_and_has_saved_nothing_up) {
  World w;
  auto [c, b] = w.worker(0, 1, {.items = 1, .tokens = 40});
  const auto next = [&] {
    CHECK(c.next(b, false, 0));
    const u32 slot = slots_of(b)[0];
    run(c, b);
    w.doors[0].drain();
    return slot;
  };
  for (u32 i = 0; i < 20; i++) w.put(5, kLow), next();
  w.put(1, kLow), w.put(1, kLow);
  const u32 high = w.put(1, kHigh);
  CHECK_EQ(next(), high);
  next();
  // The lowest class has had 21 times what the highest has: it is not made to wait for that.
  u32 lows = 0;
  for (u32 i = 0; i < 20; i++) {
    const u32 put = w.put(1, kHigh);
    lows += next() != put;
    if (lows) break;
  }
  CHECK_EQ(lows, 1u);
}

TEST(a_batch_takes_of_several_classes) {
  World w;
  auto [c, b] = w.worker(0, 1, {.items = 6, .tokens = 40});
  u32 kinds[8] = {}, taken[kPriorities] = {};
  for (u32 kind : {kLow, kNormal, kNormal, kHigh, kHigh, kHigh, kHigh, kHigh}) kinds[w.put(1, kind)] = kind;
  CHECK(c.next(b, false, 0));
  for (u32 slot : slots_of(b)) taken[kinds[slot]]++;
  CHECK_EQ(taken[kHigh], 5u);
  CHECK_EQ(taken[kNormal], 1u);
}

TEST(what_waits_and_has_waited_is_known_by_class) {
  World w(true, 2);
  w.put(1, kLow, 30, 0), w.put(1, kLow, 20, 1), w.put(1, kHigh, 40, 0);
  w.segment.door_route(1, 0).held_back[kLow] = 5;
  const Waiting found = waiting_of(w.segment, 0);
  CHECK_EQ(found.of[kHigh].items, 1u);
  CHECK_EQ(found.of[kHigh].oldest_ns, 40u);
  CHECK_EQ(found.of[kNormal].items, 0u);
  CHECK_EQ(found.of[kNormal].oldest_ns, 0u);
  CHECK_EQ(found.of[kLow].items, 7u);
  CHECK_EQ(found.of[kLow].oldest_ns, 20u);
  CHECK_EQ(found.items(), 8u);
  CHECK_EQ(found.oldest_ns(), 20u);
  auto [c, b] = w.worker(0);
  CHECK(c.next(b, false, 0));
  for (const Claim& claim : b.claims) c.record_wait(claim, 50);
  CHECK_EQ(c.stats().class_wait[kHigh].sum, 10u);
  CHECK_EQ(c.stats().class_wait[kLow].sum, 50u);
  CHECK_EQ(c.stats().class_wait[kLow].count, 2u);
  CHECK_EQ(c.stats().stage[kQueue].sum, 60u);
}

TEST(oldest_door_first) {
  World w(true, 2);
  auto [c, b] = w.worker(0, 1, {.items = 1, .tokens = 40});
  w.put(1, kNormal, 30, 0);
  w.put(1, kNormal, 40, 0);
  w.put(1, kNormal, 10, 1);
  w.put(1, kNormal, 35, 1);
  for (u32 door : {1, 0, 1, 0}) {
    serve(c, b);
    CHECK_EQ(b.claims[0].door, door);
  }
}

TEST(ahead_takes_only_a_full_batch_that_nobody_else_is_free_for) {
  World w;
  Encoder c = w.claimer(0), other = w.claimer(1);
  Batch b, none;
  for (int i = 0; i < 3; i++) w.put(1);
  CHECK(!c.next(b, true, 0));  // three of four
  w.put(1);
  announce_sleep(w.segment.dispatcher(1).sleep);
  CHECK(!c.next(b, true, 0));  // a full one, but another sleeps: it is woken
  CHECK(w.signalled(w.fds.dispatcher[1]));
  set_mode(w.segment.dispatcher(1).sleep, kBusy);
  CHECK(c.next(b, true, 0));
  CHECK_EQ(b.claims.size(), 4u);
  CHECK(mode_of(w.segment.dispatcher(0).sleep.load()) == kBusy);
}

TEST(work_that_is_left_wakes_one_more) {
  World w;
  auto [c, b] = w.worker(0);
  for (u32 d : {1, 2}) announce_sleep(w.segment.dispatcher(d).sleep);
  set_mode(w.segment.dispatcher(0).sleep, kHungry);
  for (int i = 0; i < 5; i++) w.put(1);  // no signal: dispatcher 0 is about to look
  CHECK(!w.signalled(w.fds.dispatcher[1]) && !w.signalled(w.fds.dispatcher[2]));
  CHECK(c.next(b, false, 0));
  CHECK(w.signalled(w.fds.dispatcher[1]) && !w.signalled(w.fds.dispatcher[2]));
  c.leave();  // signalled once in this sleep already
  CHECK(!w.signalled(w.fds.dispatcher[1]) && !w.signalled(w.fds.dispatcher[2]));
  w.doors[0].settle_all();  // the tick trusts nobody
  CHECK(w.signalled(w.fds.dispatcher[1]) && w.signalled(w.fds.dispatcher[2]));
}

TEST(leaving_passes_a_wake_up_on) {
  World w;
  Encoder c = w.claimer(0);
  announce_sleep(w.segment.dispatcher(0).sleep);
  announce_sleep(w.segment.dispatcher(1).sleep);
  w.put(1);
  CHECK(w.signalled(w.fds.dispatcher[0]) && !w.signalled(w.fds.dispatcher[1]));
  c.leave();
  CHECK(w.signalled(w.fds.dispatcher[1]));
}

// What a dispatcher's death right after each of its steps leaves, and what the door makes of it.
TEST(death_after_each_step) {
  enum { kHead, kClaim, kLaunch, kToken, kFinish };
  struct {
    int last_step;
    u32 strikes, requeued;
    bool answered;
  } rows[] = {{kHead, 0, 1, false},
              {kClaim, 1, 1, false},
              {kLaunch, 2, 1, false},
              {kToken, 1, 1, false},
              {kFinish, 0, 0, true}};
  for (auto& r : rows) {
    World w;
    auto [c, b] = w.worker(0);
    Encoder next = w.claimer(1);
    u32 i = w.put();
    if (r.last_step == kHead) {
      w.segment.request_ring(0, 0, kNormal).head++;
    } else {
      CHECK(c.next(b, false, 0));
      if (r.last_step >= kLaunch) CHECK(c.launch(b.claims[0]));
      if (r.last_step >= kToken) w.segment.slot(0, i).n_made = 1;
      if (r.last_step >= kFinish) CHECK(c.finish(b.claims[0]));  // the hint is never published
    }
    w.die(0, 1);
    CHECK(w.signalled(w.fds.door[0]));
    CHECK(!w.doors[0].announce());
    w.doors[0].drain();
    CHECK_EQ(w.segment.slot(0, i).strikes, r.strikes);
    CHECK_EQ(w.doors[0].requeued(), r.requeued);
    CHECK_EQ(w.hosts[0].answers.size(), size_t(r.answered));
    CHECK_EQ(next.next(b, false, 0), !r.answered);
    if (r.answered) continue;
    CHECK_EQ(w.word(i).bits, Word::make(State::kClaimed, 2, 1, 1).bits);
    CHECK_EQ(b.suspect, r.strikes >= 2);
    run(next, b);
    w.doors[0].drain();
    CHECK(w.last().verdict == Verdict::kDone);
    CHECK_EQ(w.doors[0].used(), 0u);
  }
}

// ---- canaries

TEST(canary_goes_round_when_nothing_else_waits) {
  World w;
  auto [c, b] = w.worker(1);
  const u32 canary = w.segment.sizes().slots + 1;
  CHECK(w.doors[0].put_canary(1, 5));
  CHECK(w.signalled(w.fds.dispatcher[1]));   // busy or asleep
  CHECK(!w.signalled(w.fds.dispatcher[0]));  // it is nobody else's
  CHECK(!w.claimer(0).next(b, false, 0));
  CHECK(!w.doors[0].put_canary(1, 6));  // one at a time
  CHECK_EQ(w.doors[0].used(), 0u);      // and no request
  CHECK_EQ(w.doors[0].waiting(0), 0u);
  u32 i = w.put();
  CHECK(c.next(b, false, 0));  // a request first, and alone
  CHECK_EQ(b.claims.size(), 1u);
  CHECK(!b.canary && b.claims[0].slot == i);
  Batch ahead;
  CHECK(!c.next(ahead, true, 0));  // not beside what runs
  run(c, b);
  CHECK(c.next(b, false, 0));
  CHECK(b.canary && !b.suspect);
  CHECK_EQ(b.claims.size(), 1u);
  CHECK_EQ(b.claims[0].slot, canary);
  CHECK_EQ(b.n_tokens, 1u);
  CHECK_EQ(w.doors[0].canaries(), 1u);
  run(c, b);
  w.doors[0].drain();
  CHECK_EQ(w.doors[0].canaries(), 0u);
  CHECK_EQ(w.segment.door_stats(0).canaries[1].load(), 1u);
  CHECK_EQ(w.hosts[0].answers.size(), 1u);  // the request's
  CHECK(w.doors[0].put_canary(1, 7));
}

TEST(canary_waits_for_no_company) {
  World w;
  auto [c, b] = w.worker(0, 1, {.items = 4, .tokens = 40, .delay_ns = 2 * test::kPatienceNs});
  CHECK(w.doors[0].put_canary(0, now_ns()));
  const u64 start = now_ns();
  CHECK(c.next(b, false, 0));
  CHECK(b.canary);
  CHECK(now_ns() - start < test::kPatienceNs);
}

// Where its dispatcher dies it is over; one that nobody had touched waits for the next incarnation.
TEST(canary_and_the_death_of_its_dispatcher) {
  for (int last_step = 0; last_step < 4; last_step++) {
    World w;
    auto [c, b] = w.worker(0);
    Encoder next = w.claimer(0, 2);
    CHECK(w.doors[0].put_canary(0, 1));
    if (last_step >= 1) CHECK(c.next(b, false, 0));
    if (last_step >= 2) CHECK(c.launch(b.claims[0]));
    if (last_step >= 3) CHECK(c.finish(b.claims[0]));  // the hint is never published
    w.die(0, 1);
    w.doors[0].drain();
    CHECK_EQ(w.doors[0].canaries(), u32(last_step == 0));
    CHECK_EQ(w.segment.door_stats(0).canaries[0].load(), u64(last_step == 3));
    CHECK_EQ(w.doors[0].requeued(), 0u);
    CHECK_EQ(next.next(b, false, 0), last_step == 0);
    CHECK(w.doors[0].put_canary(0, 2) == (last_step > 0));
  }
}

// What the supervisor kills a dispatcher for must be what that one could still answer: a canary that an incarnation
// before took with it stays in its slot until the front door looks, and a dead one never does.
TEST(canary_of_the_dead_is_not_held_against_who_comes_after) {
  World w(true, 2);
  auto [c, b] = w.worker(0);
  CHECK_EQ(canary_since_ns(w.segment, 0), 0u);
  CHECK(w.doors[1].put_canary(0, 5));
  CHECK_EQ(canary_since_ns(w.segment, 0), 5u);  // QUEUED
  CHECK_EQ(canary_since_ns(w.segment, 1), 0u);
  CHECK(c.next(b, false, 0));
  CHECK_EQ(canary_since_ns(w.segment, 0), 5u);  // CLAIMED
  CHECK(c.launch(b.claims[0]));
  CHECK_EQ(canary_since_ns(w.segment, 0), 5u);  // LAUNCHED
  w.doors.pop_back();                           // front door 1 is down, and stays so
  w.die(0, 1);
  CHECK_EQ(canary_since_ns(w.segment, 0), 0u);
  Encoder next = w.claimer(0, 2);
  CHECK(w.doors[0].put_canary(0, 9));
  CHECK_EQ(canary_since_ns(w.segment, 0), 9u);  // another door's
  serve(next, b);
  CHECK_EQ(canary_since_ns(w.segment, 0), 0u);  // DONE
}

TEST(canary_survives_its_front_door) {
  World w;
  auto [c, b] = w.worker(0);
  CHECK(w.doors[0].put_canary(0, 1));
  CHECK(c.next(b, false, 0));
  run(c, b);  // its hint goes to a door that is not there any more
  w.reopen();
  CHECK_EQ(w.doors[0].canaries(), 0u);
  CHECK_EQ(w.segment.door_stats(0).canaries[0].load(), 1u);
  CHECK(w.doors[0].put_canary(0, 2));
  CHECK(c.next(b, false, 0));
  w.reopen();  // while its dispatcher holds it
  CHECK(!w.doors[0].put_canary(0, 3));
  run(c, b);
  w.doors[0].drain();
  CHECK_EQ(w.doors[0].canaries(), 0u);
}

TEST(fenced_dispatcher_is_told) {
  World w;
  auto [c, b] = w.worker(0);
  w.put();
  w.put();
  CHECK(c.next(b, false, 0));
  CHECK(c.launch(b.claims[1]));
  w.die(0, 1);
  w.doors[0].drain();
  CHECK(!c.launch(b.claims[0]));
  CHECK(!c.finish(b.claims[1]));
}

TEST(suspects_run_alone_and_four_strikes_are_poison) {
  World w;
  Batch b;
  u32 bad = w.put(1), good = w.put(1);
  Encoder first = w.claimer(0);
  CHECK(first.next(b, false, 0));
  CHECK_EQ(b.claims.size(), 2u);
  for (auto& claim : b.claims) CHECK(first.launch(claim));
  w.die(0, 1);
  w.doors[0].drain();
  CHECK_EQ(w.doors[0].suspects(), 2u);
  u32 fresh = w.put(1);
  Encoder second = w.claimer(0, 2);
  CHECK(!second.next(b, true, 0));  // suspects wait: the pipeline runs empty
  CHECK(second.next(b, false, 0));
  CHECK(b.suspect && slots_of(b) == List{bad});
  Batch ahead;
  for (int i = 0; i < 4; i++) w.put(1);
  CHECK(!second.next(ahead, true, 0));  // nothing joins a suspect
  CHECK(second.launch(b.claims[0]));
  w.die(0, 2);
  w.doors[0].drain();
  CHECK_EQ(w.hosts[0].answers.size(), 1u);
  CHECK(w.last().slot == bad && w.last().verdict == Verdict::kPoison);
  CHECK(w.is(bad, State::kFree));
  Encoder third = w.claimer(0, 3);
  serve(third, b);
  CHECK(b.suspect && slots_of(b) == List{good});
  CHECK(third.next(b, false, 0));
  CHECK(!b.suspect && b.claims[0].slot == fresh);
}

TEST(request_that_kills_before_launch_is_poison_at_its_fourth_claim) {
  World w;
  Batch b;
  w.put();
  for (u32 epoch = 1; epoch <= 4; epoch++) {
    CHECK_EQ(w.hosts[0].answers.size(), 0u);
    Encoder c = w.claimer(0, epoch);
    CHECK(c.next(b, false, 0));
    CHECK_EQ(b.suspect, epoch > 2);
    w.die(0, epoch);
    w.doors[0].drain();
  }
  CHECK(w.last().verdict == Verdict::kPoison);
}

TEST(without_rerun_a_death_after_launch_is_final) {
  World w(false);
  auto [c, b] = w.worker(0);
  u32 launched = w.put(), claimed = w.put();
  CHECK(c.next(b, false, 0));
  CHECK(c.launch(b.claims[0]));
  w.die(0, 1);
  w.doors[0].drain();
  CHECK_EQ(w.hosts[0].answers.size(), 1u);
  CHECK(w.last().slot == launched && w.last().verdict == Verdict::kBroken);
  CHECK(w.is(claimed, State::kQueued));
}

TEST(cancel_in_each_state) {
  enum { kQueuedOnly, kClaim, kLaunch, kFinish };
  struct {
    int last_step;
    Cancel said;
    State then;
    size_t answers;
  } rows[] = {{kQueuedOnly, Cancel::kFreed, State::kFree, 0},
              {kClaim, Cancel::kWaiting, State::kClaimed, 0},
              {kLaunch, Cancel::kWaiting, State::kLaunched, 0},
              {kFinish, Cancel::kDone, State::kDone, 1}};
  for (auto& r : rows) {
    World w;
    auto [c, b] = w.worker(0);
    u32 i = w.put();
    if (r.last_step >= kClaim) CHECK(c.next(b, false, 0));
    if (r.last_step >= kLaunch) CHECK(c.launch(b.claims[0]));
    if (r.last_step >= kFinish) CHECK(c.finish(b.claims[0]));
    CHECK(w.doors[0].cancel(i) == r.said);
    CHECK(w.is(i, r.then));
    CHECK_EQ(w.doors[0].open(), u32(r.said == Cancel::kDone));
    CHECK_EQ(w.doors[0].used(), u32(r.said != Cancel::kFreed));
    if (r.last_step == kQueuedOnly) {  // its ring entry is an old one now
      CHECK(!c.next(b, false, 0));
      CHECK_EQ(c.stats().stale_entries.load(), 1u);
    } else {
      if (r.last_step < kLaunch) CHECK(c.launch(b.claims[0]));
      if (r.last_step < kFinish) CHECK(c.finish(b.claims[0]));
      c.publish();
      w.doors[0].drain();
    }
    CHECK_EQ(w.hosts[0].answers.size(), r.answers);
    CHECK(w.hosts[0].released_slots == List{i});
    CHECK_EQ(w.doors[0].used(), 0u);
  }
}

// ---- generation: tokens while LAUNCHED, ends before the end, requests that join what runs

namespace {

// A dispatcher that generates: a claim runs until it is finished, and what it makes is told.
struct Generator : Claimer {
  Generator(World& w, u32 me, u32 epoch = 1) : Claimer(w.segment, &w.fds, me, epoch, 0) {}
  Claim start(Batch& batch, ClaimMode mode = ClaimMode::kFree) {
    CHECK(next(batch, mode, {.items = 1, .tokens = 40}, 0));
    CHECK(launch(batch.claims[0]));
    return batch.claims[0];
  }
  void make(const Claim& c, u32 tokens) {
    slot(c).n_made.store(tokens, kRelease);
    progress(c);
    publish();
  }
  void end(const Claim& c) {
    CHECK(finish(c));
    publish();
  }
};

}  // namespace

TEST(progress_is_told_while_launched_and_wanted) {
  World w;
  Generator g(w, 0);
  Batch b;
  u32 i = w.put();
  RingLine& out = w.segment.output_ring(0, 0);
  out.entry[0] = out.entry[1] = i;
  out.tail = 1;
  w.doors[0].drain();  // an old hint, of a slot that is QUEUED
  CHECK(g.next(b, ClaimMode::kFree, {.items = 1, .tokens = 40}, 0));
  out.tail = 2;
  w.doors[0].drain();  // and CLAIMED
  CHECK(w.hosts[0].progressed.empty());
  CHECK(g.launch(b.claims[0]));
  Generator again(w, 0);  // goes on where the ring stands
  announce_sleep(w.segment.door(0).sleep);
  again.make(b.claims[0], 1);
  CHECK(w.signalled(w.fds.door[0]));
  w.doors[0].drain();
  CHECK(w.hosts[0].progressed == List{i});
  again.make(b.claims[0], 2);
  CHECK(again.finish(b.claims[0]));
  again.publish();
  w.doors[0].drain();  // the hint of the second token finds the end, and the hint of the end nothing
  CHECK(w.hosts[0].progressed == List{i});
  CHECK_EQ(w.hosts[0].answers.size(), 1u);
  CHECK_EQ(w.doors[0].used(), 0u);
}

TEST(progress_hints_leave_half_of_the_ring_to_the_ends) {
  World w;
  Generator g(w, 0);
  Batch b;
  w.put();
  Claim c = g.start(b);
  RingLine& out = w.segment.output_ring(0, 0);
  for (u32 n = 1; n <= 20; n++) g.make(c, n);
  CHECK_EQ(out.tail.load(), 8u);  // of 16
  g.end(c);
  CHECK_EQ(out.tail.load(), 9u);
  CHECK_EQ(g.stats().lost_hints.load(), 0u);
  w.doors[0].drain();
  CHECK_EQ(w.hosts[0].answers.size(), 1u);
}

// What a death after some tokens means: the request runs again from its beginning, unless its client has seen a part.
TEST(death_after_progress) {
  struct {
    bool begun;
    u32 strikes_before;
    Verdict verdict;  // kDone: it runs again
    bool suspect;
  } rows[] = {{false, 0, Verdict::kDone, false},
              {false, 1, Verdict::kDone, true},
              {false, 3, Verdict::kPoison, false},
              {true, 0, Verdict::kBroken, false},
              {true, 3, Verdict::kPoison, false}};
  for (auto& r : rows) {
    World w;
    Generator g(w, 0), other(w, 1);
    Batch b;
    u32 i = w.put();
    w.segment.slot(0, i).strikes = r.strikes_before;
    Claim c = g.start(b);
    g.make(c, 2);
    w.doors[0].drain();
    CHECK(w.hosts[0].progressed == List{i});
    if (r.begun) w.doors[0].begun(i);
    w.die(0, 1);
    w.doors[0].drain();
    CHECK(w.hosts[0].restarts == (r.verdict == Verdict::kDone ? List{i} : List{}));
    if (r.verdict != Verdict::kDone) {
      CHECK(w.last().verdict == r.verdict);
      CHECK(w.is(i, State::kFree));
      CHECK_EQ(w.put(), i);  // the slot's next request has not begun
      w.segment.slot(0, i).strikes = 0;
    }
    CHECK_EQ(w.segment.slot(0, i).n_made.load(), 0u);
    const size_t answers = w.hosts[0].answers.size();
    c = other.start(b);
    CHECK_EQ(b.suspect, r.suspect);
    other.make(c, 1);
    w.doors[0].drain();
    CHECK(w.hosts[0].progressed == (List{i, i}));
    if (r.suspect) {  // alone it is the cause, whatever it has made
      w.die(1, 1);
      w.doors[0].drain();
      CHECK(w.last().verdict == Verdict::kPoison);
      continue;
    }
    if (r.begun) {  // it has not: that was the last one
      w.die(1, 1);
      w.doors[0].drain();
      CHECK(w.hosts[0].restarts == List{i});
      CHECK(w.is(i, State::kQueued));
      continue;
    }
    other.end(c);
    w.doors[0].drain();
    CHECK_EQ(w.hosts[0].answers.size(), answers + 1);
    CHECK(w.last().verdict == Verdict::kDone);
    CHECK_EQ(w.doors[0].used(), 0u);
  }
}

TEST(slot_begins_without_tokens) {
  World w;
  Generator g(w, 0);
  Batch b;
  u32 i = w.put();
  Claim c = g.start(b);
  g.make(c, 3);
  g.end(c);
  w.doors[0].drain();
  CHECK_EQ(w.put(), i);
  CHECK_EQ(w.segment.slot(0, i).n_made.load(), 0u);
}

TEST(stop_ends_a_request_that_runs) {
  World w;
  Generator g(w, 0);
  Batch b;
  u32 i = w.put();
  Claim c = g.start(b);
  g.make(c, 1);
  w.doors[0].drain();
  w.doors[0].begun(i);
  CHECK(w.doors[0].cancel(i, Control::kStop) == Cancel::kWaiting);
  CHECK_EQ(w.doors[0].open(), 0u);
  CHECK_EQ(w.doors[0].used(), 1u);
  g.make(c, 2);
  w.doors[0].drain();  // late tokens: nobody is told
  CHECK(w.hosts[0].progressed == List{i});
  const u64 entry = w.segment.control_ring(0, 0).entry[0].load();
  CHECK(control_op(entry) == Control::kStop);
  List gone;
  b.clear();
  g.read_controls(b, [&](u32 door, u32 slot, u32 seq) { gone = {door, slot, seq}; });
  CHECK(gone == (List{0, i, c.seq}));
  g.end(c);
  w.doors[0].drain();
  CHECK(w.hosts[0].released_slots == List{i});
  CHECK_EQ(w.hosts[0].answers.size(), 0u);

  u32 next = w.put();  // its dispatcher dies instead
  CHECK_EQ(next, i);
  c = g.start(b);
  CHECK(w.doors[0].cancel(i, Control::kStop) == Cancel::kWaiting);
  w.die(0, 1);
  w.doors[0].drain();
  CHECK(w.hosts[0].released_slots == (List{i, i}));
  CHECK_EQ(w.hosts[0].answers.size() + w.hosts[0].restarts.size(), 0u);
}

TEST(controls_are_for_what_is_claimed_and_what_runs) {
  World w(true, 2);
  Generator g(w, 0);
  Batch runs, b;
  u32 running = w.put(5, kNormal, 1, 1);
  Claim c = g.start(runs);
  u32 claimed = w.put(6), fine = w.put(7);
  CHECK(g.next(b, ClaimMode::kJoin, {.items = 4, .tokens = 40}, 0));
  CHECK_EQ(b.n_tokens, 13u);
  CHECK(w.doors[0].cancel(claimed) == Cancel::kWaiting);
  CHECK(w.doors[1].cancel(running, Control::kStop) == Cancel::kWaiting);
  List gone;
  g.read_controls(b, [&](u32 door, u32 slot, u32 seq) { gone.insert(gone.end(), {door, slot, seq}); });
  CHECK(gone == (List{1, running, c.seq}));
  CHECK(slots_of(b) == List{fine});
  CHECK_EQ(b.n_tokens, 7u);
  CHECK_EQ(b.dropped.size(), 1u);
  CHECK(b.dropped[0].claim.slot == claimed && b.dropped[0].code == StatusCode::kCancelled);
  gone.clear();
  g.read_controls(b, [&](u32, u32, u32) { gone.push_back(1); });  // once
  CHECK(gone.empty());
}

TEST(joining_takes_what_fits) {
  World w;
  Generator g(w, 0);
  Batch b;
  CHECK(!g.next(b, ClaimMode::kJoin, {.items = 2, .tokens = 40}, 0));  // nothing there: and it does not sleep
  for (int i = 0; i < 4; i++) w.put(10);
  announce_sleep(w.segment.dispatcher(1).sleep);
  w.segment.route(0).dispatchers.store(1);  // the sleeper is another route's
  CHECK(g.next(b, ClaimMode::kJoin, {.items = 2, .tokens = 40}, 0));
  CHECK_EQ(b.claims.size(), 2u);
  CHECK(g.next(b, ClaimMode::kJoin, {.items = 4, .tokens = 15}, 0));  // one need not fill a batch
  CHECK_EQ(b.claims.size(), 1u);
  CHECK(!g.next(b, ClaimMode::kJoin, {.items = 0, .tokens = 40}, 0));  // every cache slot is taken
  CHECK(mode_of(g.own().sleep.load()) == kBusy);
  CHECK(g.next(b, ClaimMode::kJoin, {.items = 4, .tokens = 40, .delay_ns = ~u64(0) >> 1},
               0));  // nor does it wait for company
  CHECK_EQ(b.claims.size(), 1u);
}

TEST(who_lets_nobody_join_wakes_another) {
  enum { kSleeperElsewhere, kNoRoom, kSuspectWaits };
  for (int why : {kSleeperElsewhere, kNoRoom, kSuspectWaits}) {
    World w;
    w.segment.route(0).dispatchers.store(3);
    Generator g(w, 0), other(w, 1);
    Batch b;
    set_mode(w.segment.dispatcher(0).sleep, kHungry);  // the door counts on it, and signals nobody
    w.put(10, why == kSuspectWaits ? u32(kSuspect) : u32(kNormal));
    announce_sleep(w.segment.dispatcher(1).sleep);
    CHECK(!g.next(b, ClaimMode::kJoin, {.items = why == kNoRoom ? 0u : 4u, .tokens = 40}, 0));
    CHECK(mode_of(g.own().sleep.load()) == kBusy);
    CHECK(w.signalled(w.fds.dispatcher[1]));
    CHECK(other.next(b, ClaimMode::kFree, {.items = 4, .tokens = 40}, 0));
    CHECK_EQ(b.suspect, why == kSuspectWaits);
  }
}

TEST(nothing_joins_while_suspects_wait_or_run) {
  World w;
  w.segment.route(0).dispatchers.store(1);
  Generator g(w, 0);
  Batch b;
  w.put(1);
  Claim first = g.start(b);
  w.put(1, kSuspect);
  u32 fresh = w.put(1);
  CHECK(!g.next(b, ClaimMode::kJoin, {.items = 4, .tokens = 40}, 0));  // until nothing runs
  g.end(first);
  Claim suspect = g.start(b);
  CHECK(b.suspect);
  CHECK(!g.next(b, ClaimMode::kJoin, {.items = 4, .tokens = 40}, 0));  // it runs alone
  g.end(suspect);
  Claim second = g.start(b);
  CHECK(!b.suspect && second.slot == fresh);
  u32 third = w.put(1);
  CHECK(g.next(b, ClaimMode::kJoin, {.items = 4, .tokens = 40}, 0));  // as before
  CHECK(slots_of(b) == List{third});
}

TEST(orphan_returns_with_its_dispatchers_death) {
  World w;
  auto [c, b] = w.worker(0);
  u32 i = w.put();
  CHECK(c.next(b, false, 0));
  CHECK(c.launch(b.claims[0]));
  CHECK(w.doors[0].cancel(i) == Cancel::kWaiting);
  w.die(0, 1);
  w.doors[0].drain();
  CHECK(w.is(i, State::kFree));
  CHECK_EQ(w.hosts[0].answers.size(), 0u);
  CHECK_EQ(w.doors[0].requeued(), 0u);
}

TEST(expired_and_cancelled_claims_are_dropped) {
  World w;
  auto [c, b] = w.worker(0);
  u32 late = w.put(5, kNormal, 1, 0, 1), fine = w.put(6, kNormal, 1, 0, ~u64(0)), gone = w.put(7);
  // The cancel of a request that this dispatcher is about to hold, and an old one of the slot's last request.
  RingLine& control = w.segment.control_ring(0, 0);
  u32 seq = w.word(gone).seq();
  control.entry[0] = control_entry(seq, Control::kCancel, gone);
  control.entry[1] = control_entry(w.word(fine).seq() - 1, Control::kCancel, fine);
  control.tail = 2;
  CHECK(c.next(b, false, 0));
  CHECK(slots_of(b) == List{fine});
  CHECK_EQ(b.n_tokens, 6u);
  CHECK_EQ(b.dropped.size(), 2u);
  CHECK(b.dropped[0].claim.slot == late && b.dropped[0].code == StatusCode::kDeadlineExceeded);
  CHECK(b.dropped[1].claim.slot == gone && b.dropped[1].code == StatusCode::kCancelled);
  CHECK_EQ(control.head.load(), 2u);
}

TEST(full_control_ring_is_no_obstacle) {
  World w;
  auto [c, b] = w.worker(0);
  u32 i = w.put();
  CHECK(c.next(b, false, 0));
  RingLine& control = w.segment.control_ring(0, 0);
  control.tail = kControlEntries;
  CHECK(w.doors[0].cancel(i) == Cancel::kWaiting);
  w.doors[0].settle_all();
  CHECK_EQ(control.tail.load(), kControlEntries);
  control.head = kControlEntries;  // read: the tick says it again
  w.doors[0].settle_all();
  CHECK_EQ(control.tail.load(), kControlEntries + 1);
  CHECK(control.entry[0] == control_entry(w.word(i).seq(), Control::kCancel, i));
  w.reopen();  // and so does the front door's next incarnation, for what it inherits
  CHECK_EQ(control.tail.load(), kControlEntries + 2);
}

TEST(lingering_gathers_company) {
  World w;
  auto [c, b] = w.worker(0, 1, {.items = 2, .tokens = 40, .delay_ns = 2'000'000});
  u64 now = now_ns();
  w.put(1, kNormal, now);
  CHECK(c.next(b, false, 0));  // nobody comes
  CHECK_EQ(b.claims.size(), 1u);
  CHECK(now_ns() - now >= 2'000'000);
  CHECK(mode_of(c.own().sleep.load()) == kBusy);
  run(c, b);
  w.put(1, kNormal, now_ns());
  w.put(1, kNormal, now_ns());
  w.put(1, kNormal, now_ns());
  u64 before = c.delayed_ns();
  CHECK(c.next(b, false, 0));  // full at once
  CHECK_EQ(b.claims.size(), 2u);
  CHECK(c.delayed_ns() - before < 2'000'000);
}

TEST(new_front_door_adopts_what_its_predecessor_left) {
  World w;
  Encoder c = w.claimer(0), dead = w.claimer(1);
  Batch held, lost;
  u32 finished = w.put(), running = w.put();
  CHECK(c.next(held, false, 0));
  u32 of_dead = w.put();
  CHECK(dead.next(lost, false, 0));
  u32 queued = w.put();
  u32 hidden = w.hide();
  for (auto& claim : held.claims) CHECK(c.launch(claim));
  CHECK(c.finish(held.claims[0]));
  c.publish();
  w.die(1, 1);

  Slab<Host>& second = w.reopen();
  for (u32 i : {finished, of_dead, queued, hidden}) CHECK(w.is(i, State::kFree));
  CHECK(w.is(running, State::kLaunched));  // a living dispatcher's
  CHECK_EQ(second.used(), 1u);
  CHECK_EQ(second.waiting(0), 0u);
  Batch b;
  CHECK(!c.next(b, false, 0));
  CHECK(c.finish(held.claims[1]));
  c.publish();
  second.drain();
  CHECK_EQ(second.used(), 0u);
  CHECK_EQ(w.hosts[0].answers.size(), 0u);  // those clients are gone
}

TEST(what_left_its_ring_is_told_once) {
  World w;
  RingLine& ring = w.segment.request_ring(0, 0, kNormal);
  ring.head = ring.tail = ~u64(0) - 5;  // positions wrap
  Slab<Host>& door = w.reopen();
  auto [c, b] = w.worker(0, 1, {.items = 2, .tokens = 40});
  const auto taken = [&] {
    List slots;
    door.see_taken([&](u32 slot) { slots.push_back(slot); });
    return slots;
  };
  for (int round = 0; round < 20; round++) {
    const u32 gone = w.put(1);
    CHECK(door.cancel(gone) == Cancel::kFreed);
    const u32 first = w.put(1), second = w.put(1), third = w.put(1);
    CHECK_EQ(first, gone);  // used again, while its old entry stands before its new one
    CHECK(taken().empty());
    CHECK(c.next(b, false, 0));
    CHECK(taken() == (List{first, second}));
    CHECK(taken().empty());
    run(c, b);
    serve(c, b);
    door.drain();  // the third is answered and free before anybody asks
    CHECK(taken().empty());
    CHECK_EQ(third, u32(door.take()));
    door.give_back(third);
  }
  w.put(1);
  ring.head = ring.tail + 1;  // bytes of another process
  CHECK(taken().empty());
}

TEST(rings_wrap_and_refuse_when_full) {
  World w;
  for (u32 kind = 0; kind < kClasses; kind++) {
    RingLine& ring = w.segment.request_ring(0, 0, kind);
    ring.head = ring.tail = ~u64(0) - 5;  // and so do their positions
  }
  Slab<Host>& door = w.reopen();
  auto [c, b] = w.worker(0);
  for (u32 round = 0; round < 40; round++) {
    for (u32 n = 0; n < 3; n++) w.hide();
    door.publish();
    serve(c, b);
    CHECK_EQ(b.claims.size(), 3u);
    door.drain();
  }
  CHECK_EQ(w.hosts[0].answers.size(), 120u);
  // Cancelled requests leave their entries behind: 8 old ones, and no new one is taken before somebody looks.
  for (u32 n = 0; n < 8; n++) CHECK(door.cancel(w.hide()) == Cancel::kFreed);
  door.publish();
  u32 i = u32(door.take());
  CHECK(!door.put(i, 0, kNormal, 0, 1));
  CHECK(w.is(i, State::kFree));
  CHECK(!c.next(b, false, 0));
  CHECK(door.put(i, 0, kNormal, 0, 1));
}

TEST(hostile_bytes_in_rings_do_no_harm) {
  World w;
  auto [c, b] = w.worker(0);
  RingLine& ring = w.segment.request_ring(0, 0, kNormal);
  u32 i = w.put();
  ring.entry[1] = ring_entry(1, 8);  // one past the last slot
  ring.entry[2] = ring_entry(1, 0xffffffff);
  ring.entry[3] = ring_entry(5, i);  // a seq that the slot does not have
  ring.entry[4] = ring_entry(1, i);  // twice
  ring.tail = 5;
  CHECK(c.next(b, false, 0));
  CHECK(slots_of(b) == List{i});
  CHECK(!c.next(b, false, 0));
  CHECK_EQ(ring.head.load(), 5u);

  for (u64 tail : {u64(5) + 17, u64(4), ~u64(0), u64(1) << 63}) {  // more than the ring holds, or behind its head
    ring.tail = tail;
    CHECK(!c.next(b, false, 0));
    CHECK(!c.next(b, true, 0));
  }
  RingLine& out = w.segment.output_ring(0, 0);
  out.entry[0] = 8, out.entry[1] = ~u64(0), out.entry[2] = (i + 1) % 8, out.entry[3] = i;  // i is claimed, not done
  out.tail = 4;
  w.doors[0].drain();
  CHECK_EQ(out.head.load(), 4u);
  out.tail = 1'000'000'000'000;
  w.doors[0].drain();
  CHECK_EQ(out.head.load(), out.tail.load());
  RingLine& control = w.segment.control_ring(0, 0);
  control.tail = ~u64(0);
  ring.tail = 5;
  CHECK(!c.next(b, true, 0));
  CHECK_EQ(control.head.load(), control.tail.load());
  CHECK_EQ(w.hosts[0].answers.size(), 0u);
}

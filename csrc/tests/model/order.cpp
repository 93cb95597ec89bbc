// Which memory orders does csrc/core need? An exhaustive check under a weak memory model. `make model` runs it.
//
// The model: every location keeps all its writes; a thread may read any write that is not older than what it already
// knows (its view); release attaches the writer's view to the write, acquire takes it over; a read-modify-write reads
// the newest write and continues its release sequence; a seq_cst load sees every earlier seq_cst store to the same
// location. Plain accesses must be ordered by happens-before, or it is a data race. This is C++20 without
// out-of-thin-air and without load-store reordering (so it cannot show why the release of the CAS on head is needed:
// see ring.h, H).
//
// First the orders as specified: must pass. Then each one weakened alone: something must break where the table says
// that the order is needed, and nothing where it does not.
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

enum Ord : uint8_t { NA, RLX, ACQ, REL, AR, SC };
static bool acquires(Ord o) { return o == ACQ || o == AR || o == SC; }
static bool releases(Ord o) { return o == REL || o == AR || o == SC; }

constexpr int kLocs = 9, kThreads = 3, kView = kLocs + kThreads, kRegs = 6;
using View = std::array<uint8_t, kView>;  // newest write known per location; newest plain read known per thread
using Regs = std::array<int16_t, kRegs>;
struct Msg {
  int16_t val;
  View view;
};
struct Thread {
  uint8_t pc = 0;
  Regs r{};
  View cur{};
};
struct State {
  std::array<std::vector<Msg>, kLocs> mem;
  View sc{};
  std::array<Thread, kThreads> th;
  uint8_t read_at[kLocs][kThreads] = {};  // clock of each thread's last plain read
};
struct Ins {
  enum Kind { LD, ST, CAS, SET, IF, ASSERT, END } kind;
  int loc = 0;
  Ord ord = RLX;
  int reg = 0;
  std::function<int(const Regs&)> val, expect;
  std::function<bool(const Regs&, int)> pred;
  int target = 0;
};
using Prog = std::vector<Ins>;
static void join(View& a, const View& b) {
  for (int i = 0; i < kView; i++)
    if (b[i] > a[i]) a[i] = b[i];
}

struct Checker {
  std::vector<Prog> prog;
  std::string error;
  std::unordered_set<std::string> seen;
  bool (*must_end)(int) = nullptr;

  static std::string key(const State& s) {
    std::string k;
    k.reserve(512);
    for (auto& l : s.mem) {
      k += char(l.size());
      for (auto& m : l) {
        k.append((char*)&m.val, 2);
        k.append((char*)m.view.data(), kView);
      }
    }
    k.append((char*)s.sc.data(), kView);
    for (auto& t : s.th) {
      k += char(t.pc);
      k.append((char*)t.r.data(), sizeof t.r);
      k.append((char*)t.cur.data(), kView);
    }
    k.append((char*)s.read_at, sizeof s.read_at);
    return k;
  }
  void write(State& s, Thread& t, int l, int v, Ord o, const View* sequence) {
    Msg m{int16_t(v), {}};
    t.cur[l] = uint8_t(s.mem[l].size());
    if (releases(o))
      m.view = t.cur;
    else
      m.view[l] = t.cur[l];
    if (sequence) join(m.view, *sequence);
    s.mem[l].push_back(m);
    if (o == SC) s.sc[l] = t.cur[l];
  }
  void next(const State& s, int who, std::vector<State>& out) {
    const Thread& t0 = s.th[who];
    const Ins& i = prog[who][t0.pc];
    auto go = [&](auto change) {
      State n = s;
      n.th[who].pc++;
      change(n, n.th[who]);
      if (error.empty()) out.push_back(std::move(n));
    };
    switch (i.kind) {
      case Ins::END:
        return;
      case Ins::SET:
        go([&](State&, Thread& t) { t.r[i.reg] = int16_t(i.val(t.r)); });
        return;
      case Ins::IF:
        go([&](State&, Thread& t) {
          if (i.pred(t.r, 0)) t.pc = uint8_t(i.target);
        });
        return;
      case Ins::ASSERT:
        if (!i.pred(t0.r, 0))
          error = "wrong value";
        else
          go([](State&, Thread&) {});
        return;
      case Ins::LD: {
        size_t last = s.mem[i.loc].size() - 1, from = t0.cur[i.loc];
        if (i.ord == NA && from != last) {
          error = "data race (read)";
          return;
        }
        if (i.ord == SC && s.sc[i.loc] > from) from = s.sc[i.loc];
        for (size_t m = from; m <= last; m++) {
          if (i.pred && !i.pred(t0.r, s.mem[i.loc][m].val)) continue;
          go([&](State& n, Thread& t) {
            t.r[i.reg] = s.mem[i.loc][m].val;
            t.cur[i.loc] = uint8_t(m);
            if (acquires(i.ord)) join(t.cur, s.mem[i.loc][m].view);
            if (i.ord == NA) n.read_at[i.loc][who] = ++t.cur[kLocs + who];
          });
        }
        return;
      }
      case Ins::ST:
        if (i.ord == NA) {
          if (t0.cur[i.loc] != s.mem[i.loc].size() - 1) {
            error = "data race (write after write)";
            return;
          }
          for (int k = 0; k < kThreads; k++)
            if (k != who && s.read_at[i.loc][k] > t0.cur[kLocs + k]) {
              error = "data race (write after read)";
              return;
            }
          go([&](State& n, Thread& t) {
            t.cur[i.loc] = uint8_t(n.mem[i.loc].size());
            n.mem[i.loc].push_back({int16_t(i.val(t.r)), {}});
          });
        } else
          go([&](State& n, Thread& t) { write(n, t, i.loc, i.val(t.r), i.ord, nullptr); });
        return;
      case Ins::CAS: {
        int want = i.expect(t0.r);
        size_t last = s.mem[i.loc].size() - 1;
        if (s.mem[i.loc][last].val == want)
          go([&](State& n, Thread& t) {
            t.r[i.reg] = 1;
            t.cur[i.loc] = uint8_t(last);
            if (acquires(i.ord)) join(t.cur, s.mem[i.loc][last].view);
            write(n, t, i.loc, i.val(t.r), i.ord, &s.mem[i.loc][last].view);
          });
        for (size_t m = t0.cur[i.loc]; m <= last; m++)  // failure: a relaxed load
          if (s.mem[i.loc][m].val != want)
            go([&](State&, Thread& t) {
              t.r[i.reg] = 0;
              t.cur[i.loc] = uint8_t(m);
            });
        return;
      }
    }
  }
  bool run() {  // true: no race, no wrong value, nobody waits for ever who must not
    State s;
    for (auto& l : s.mem) l.push_back(Msg{0, {}});
    std::vector<State> todo{s}, out;
    while (!todo.empty()) {
      State x = std::move(todo.back());
      todo.pop_back();
      if (!seen.insert(key(x)).second) continue;
      out.clear();
      for (size_t i = 0; i < prog.size(); i++) {
        next(x, int(i), out);
        if (!error.empty()) return false;
      }
      if (out.empty())
        for (size_t i = 0; i < prog.size(); i++)
          if (must_end(int(i)) && prog[i][x.th[i].pc].kind != Ins::END) {
            error = "waits for ever";
            return false;
          }
      for (auto& n : out) todo.push_back(std::move(n));
    }
    return true;
  }
};

// ---- a tiny assembler
static Ins ld(int reg, int loc, Ord o) { return {Ins::LD, loc, o, reg, {}, {}, {}, 0}; }
static Ins await(int reg, int loc, Ord o, std::function<bool(const Regs&, int)> p) {
  return {Ins::LD, loc, o, reg, {}, {}, p, 0};
}
static Ins st(int loc, Ord o, std::function<int(const Regs&)> v) { return {Ins::ST, loc, o, 0, v, {}, {}, 0}; }
static Ins cas(int reg, int loc, Ord o, std::function<int(const Regs&)> e, std::function<int(const Regs&)> v) {
  return {Ins::CAS, loc, o, reg, v, e, {}, 0};
}
static Ins jump(int target, std::function<bool(const Regs&)> p) {
  return {Ins::IF, 0, RLX, 0, {}, {}, [p](const Regs& r, int) { return p(r); }, target};
}
static Ins check(std::function<bool(const Regs&)> p) {
  return {Ins::ASSERT, 0, RLX, 0, {}, {}, [p](const Regs& r, int) { return p(r); }, 0};
}
static Ins set(int reg, std::function<int(const Regs&)> v) { return {Ins::SET, 0, RLX, reg, v, {}, {}, 0}; }
static Ins end() { return {Ins::END, 0, RLX, 0, {}, {}, {}, 0}; }

// needed: by the program with hints, and by the one that looks at the slot alone (others: the first).
struct Knob {
  const char* name;
  Ord spec, weak;
  bool needed[2];
};
constexpr bool kNo = false, kYes = true;

// ---- 1. one slot used twice, a request ring of one entry, two dispatchers
enum { STATE, ASK, ANSWER, HEAD, TAIL, ENTRY, HINT };
static std::vector<Knob> slot_knobs = {{"QUEUED store (front door)", REL, RLX, {kNo, kNo}},
                                       {"CAS QUEUED->CLAIMED", AR, RLX, {kNo, kNo}},
                                       {"CAS ->DONE", AR, RLX, {kNo, kYes}},
                                       {"state load before reading the answer", ACQ, RLX, {kNo, kYes}},
                                       {"request tail store", SC, RLX, {kYes, kYes}},
                                       {"request tail load", SC, RLX, {kYes, kYes}},
                                       {"CAS head", AR, RLX, {kNo, kNo}},
                                       {"head load (dispatcher)", ACQ, RLX, {kNo, kNo}},
                                       {"head load (front door)", ACQ, RLX, {kNo, kNo}},
                                       {"hint store (output tail)", SC, RLX, {kYes, kNo}},
                                       {"hint load (output tail)", SC, RLX, {kYes, kNo}},
                                       {"FREE store (front door)", RLX, RLX, {kNo, kNo}}};
static int Q(int seq) { return seq * 8 + 1; }
static int C(int seq, int d) { return seq * 8 + 2 + d; }
static int DN(int seq) { return seq * 8 + 5; }
static bool slot_program(const std::vector<Knob>& k, size_t& states, std::string& why, bool by_scan) {
  Checker c;
  Prog f;
  for (int q = 1; q <= 2; q++) {
    f.push_back(st(ASK, NA, [q](const Regs&) { return q; }));
    f.push_back(st(STATE, k[0].spec, [q](const Regs&) { return Q(q); }));
    f.push_back(await(0, HEAD, k[8].spec,
                      [q](const Regs&, int v) { return v == q - 1; }));  // room: the old entry has been read
    f.push_back(st(ENTRY, RLX, [q](const Regs&) { return q; }));
    f.push_back(st(TAIL, k[4].spec, [q](const Regs&) { return q; }));
    if (by_scan)
      f.push_back(await(1, STATE, k[3].spec, [q](const Regs&, int v) { return v == DN(q); }));
    else {
      f.push_back(await(2, HINT, k[10].spec, [q](const Regs&, int v) { return v == q; }));
      f.push_back(ld(1, STATE, k[3].spec));
      f.push_back(check([q](const Regs& r) { return r[1] == DN(q); }));  // else the hint would be lost
    }
    f.push_back(ld(3, ANSWER, NA));
    f.push_back(check([q](const Regs& r) { return r[3] == 100 + q; }));
    f.push_back(st(STATE, k[11].spec, [q](const Regs&) { return q * 8; }));
  }
  f.push_back(end());
  c.prog.push_back(f);
  for (int d = 0; d < 2; d++)
    c.prog.push_back(
        {/* 0*/ await(1, TAIL, k[5].spec, [](const Regs& r, int v) { return v != r[0]; }),  // r0: head as last seen
         /* 1*/ ld(0, HEAD, k[7].spec),
         /* 2*/ jump(0, [](const Regs& r) { return r[1] <= r[0]; }),
         /* 3*/ ld(2, ENTRY, RLX),
         /* 4*/
         cas(
             3, HEAD, k[6].spec, [](const Regs& r) { return r[0]; }, [](const Regs& r) { return r[0] + 1; }),
         /* 5*/ jump(0, [](const Regs& r) { return !r[3]; }),
         /* 6*/
         cas(
             3, STATE, k[1].spec, [](const Regs& r) { return Q(r[2]); }, [d](const Regs& r) { return C(r[2], d); }),
         /* 7*/ jump(0, [](const Regs& r) { return !r[3]; }),
         /* 8*/ ld(4, ASK, NA),
         /* 9*/ check([](const Regs& r) { return r[4] == r[2]; }),
         /*10*/ st(ANSWER, NA, [](const Regs& r) { return 100 + r[4]; }),
         /*11*/
         cas(
             3, STATE, k[2].spec, [d](const Regs& r) { return C(r[2], d); }, [](const Regs& r) { return DN(r[2]); }),
         /*12*/ check([](const Regs& r) { return r[3] == 1; }),
         /*13*/ st(HINT, k[9].spec, [](const Regs& r) { return r[2]; }),
         /*14*/ jump(0, [](const Regs&) { return true; })});
  c.must_end = [](int t) {
    return t == 0;
  };  // the front door must get both answers; dispatchers may wait for more work
  bool ok = c.run();
  states = c.seen.size();
  why = c.error;
  return ok;
}

// ---- 2. sleep and wake: the producer publishes twice, signalling each sleep at most once. A dispatcher that moves
// heads, and a front door that waits for room, are the same program with a head in the place of the tail (claimer.h,
// R).
enum { PTAIL, SLEEP, EVENT };
static std::vector<Knob> wake_knobs = {{"tail store", SC, REL, {kYes}},     {"sleep word load", SC, ACQ, {kYes}},
                                       {"announce store", SC, REL, {kYes}}, {"recheck load", SC, ACQ, {kYes}},
                                       {"awake store", SC, REL, {kNo}},     {"scan load after waking", SC, ACQ, {kNo}}};
static bool wake_program(const std::vector<Knob>& k, size_t& states, std::string& why, bool) {
  Checker c;
  Prog p;  // r1: sleep word last signalled (odd = asleep)
  for (int q = 1; q <= 2; q++) {
    int at = (q - 1) * 5;
    p.push_back(st(PTAIL, k[0].spec, [q](const Regs&) { return q; }));
    p.push_back(ld(0, SLEEP, k[1].spec));
    p.push_back(jump(at + 5, [](const Regs& r) { return !(r[0] & 1) || r[0] == r[1]; }));
    p.push_back(st(EVENT, AR, [q](const Regs&) { return q; }));  // write(eventfd): the kernel orders it
    p.push_back(set(1, [](const Regs& r) { return r[0]; }));
  }
  p.push_back(end());
  Prog d = {// r0 consumed, r1 events seen, r5 own sleep word
            /*0*/ st(SLEEP, k[2].spec, [](const Regs& r) { return r[5] + 1; }),  // announce
            /*1*/ ld(2, PTAIL, k[3].spec),                                       // recheck
            /*2*/ jump(4, [](const Regs& r) { return r[2] != r[0]; }),
            /*3*/ await(1, EVENT, AR, [](const Regs& r, int v) { return v > r[1]; }),  // sleep
            /*4*/ set(5, [](const Regs& r) { return r[5] + 2; }),
            /*5*/ st(SLEEP, k[4].spec, [](const Regs& r) { return r[5]; }),  // awake
            /*6*/ ld(0, PTAIL, k[5].spec),                                   // scan: consume all
            /*7*/ jump(0, [](const Regs& r) { return r[0] != 2; }),
            /*8*/ end()};
  c.prog = {p, d};
  c.must_end = [](int) { return true; };
  bool ok = c.run();
  states = c.seen.size();
  why = c.error;
  return ok;
}

// ---- 3. the front door skips the wake-up because dispatcher 1 is hungry; dispatcher 1 takes other work and is busy
// from then on
enum { RTAIL, SLEEP1, EVENT2 };  // SLEEP1: 0 = hungry, 1 = busy
static std::vector<Knob> hungry_knobs = {{"tail store", SC, REL, {kYes}},
                                         {"sleep word load", SC, ACQ, {kYes}},
                                         {"busy store", SC, REL, {kYes}},
                                         {"load of what is left", SC, ACQ, {kYes}}};
static bool hungry_program(const std::vector<Knob>& k, size_t& states, std::string& why, bool) {
  Checker c;
  auto one = [](const Regs&) { return 1; };
  c.prog = {{st(RTAIL, k[0].spec, one), ld(0, SLEEP1, k[1].spec), jump(4, [](const Regs& r) { return r[0] == 0; }),
             st(EVENT2, AR, one), end()},
            {st(SLEEP1, k[2].spec, one), ld(0, RTAIL, k[3].spec), jump(4, [](const Regs& r) { return r[0] == 0; }),
             st(EVENT2, AR, one), end()},
            {await(0, EVENT2, AR, [](const Regs&, int v) { return v == 1; }),
             end()}};  // dispatcher 2 sleeps; somebody must wake it
  c.must_end = [](int) { return true; };
  bool ok = c.run();
  states = c.seen.size();
  why = c.error;
  return ok;
}

// ---- 4. a dispatcher dies holding a slot; the front door reuses the slot
enum { DSTATE, DASK, DANSWER, REAPED, DEATHS };
static std::vector<Knob> death_knobs = {{"dead_epoch, deaths store (supervisor)", SC, RLX, {kYes}},
                                        {"deaths load (front door)", SC, RLX, {kYes}}};
static bool death_program(const std::vector<Knob>& k, size_t& states, std::string& why, bool) {
  Checker c;
  auto val = [](int v) { return [v](const Regs&) { return v; }; };
  auto is = [](int v) { return [v](const Regs&, int x) { return x == v; }; };
  c.prog = {{st(DASK, NA, val(1)), st(DSTATE, REL, val(Q(1))), await(0, DEATHS, k[1].spec, is(1)),
             st(DSTATE, RLX, val(8)), st(DASK, NA, val(2)), st(DANSWER, NA, val(0)), end()},
            {await(0, DSTATE, RLX, is(Q(1))), cas(1, DSTATE, AR, val(Q(1)), val(C(1, 0))), ld(2, DASK, NA),
             st(DANSWER, NA, val(101)), st(REAPED, AR, val(1)), end()},  // the kernel orders all of it before waitid
            {await(0, REAPED, AR, is(1)), st(DEATHS, k[0].spec, val(1)), end()}};
  c.must_end = [](int) { return true; };
  bool ok = c.run();
  states = c.seen.size();
  why = c.error;
  return ok;
}

// ---- 5. a dispatcher is added to its route's mask, starts and sleeps, while a front door publishes
enum { ATAIL, ASLEEP1, AEVENT, MASK, SPAWN };
static std::vector<Knob> mask_knobs = {{"mask store (supervisor)", SC, REL, {kYes}},
                                       {"mask load (front door)", SC, ACQ, {kYes}}};
static bool mask_program(const std::vector<Knob>& k, size_t& states, std::string& why, bool) {
  Checker c;
  auto one = [](const Regs&) { return 1; };
  auto is_one = [](const Regs&, int v) { return v == 1; };
  auto r0 = [](const Regs& r) { return r[0] == 0; };
  c.prog = {{st(ATAIL, SC, one), ld(0, MASK, k[1].spec), jump(6, r0), ld(0, ASLEEP1, SC), jump(6, r0),
             st(AEVENT, AR, one), end()},
            {await(0, SPAWN, AR, is_one), st(ASLEEP1, SC, one), ld(0, ATAIL, SC),
             jump(5, [](const Regs& r) { return r[0] == 1; }), await(0, AEVENT, AR, is_one), end()},
            {st(MASK, k[0].spec, one), st(SPAWN, AR, one), end()}};  // the kernel orders what was done before fork
  c.must_end = [](int) { return true; };
  bool ok = c.run();
  states = c.seen.size();
  why = c.error;
  return ok;
}

// ---- 6. tokens, read while they are made by a front door that has a hint of some of them; then their dispatcher dies,
// and another one makes them again in the same slot. by_end: read at DONE, found without a hint
enum { GSTATE, MADE, TOKEN0, TOKEN1, GHINT, GREAPED };
static std::vector<Knob> token_knobs = {{"n_made store (dispatcher)", REL, RLX, {kYes, kNo}},
                                        {"n_made load (front door)", ACQ, RLX, {kYes, kNo}},
                                        {"n_made = 0 store (front door)", RLX, RLX, {kNo, kNo}},
                                        {"CAS LAUNCHED->QUEUED (front door)", AR, RLX, {kYes, kYes}},
                                        {"CAS QUEUED->CLAIMED", AR, RLX, {kYes, kYes}},
                                        {"CAS ->DONE", AR, RLX, {kNo, kYes}},
                                        {"state load before reading tokens", ACQ, RLX, {kNo, kYes}},
                                        {"hint store (output tail)", SC, RLX, {kYes, kNo}},
                                        {"hint load (output tail)", SC, RLX, {kYes, kNo}}};
static bool token_program(const std::vector<Knob>& k, size_t& states, std::string& why, bool by_end) {
  Checker c;
  auto val = [](int v) { return [v](const Regs&) { return v; }; };
  auto is = [](int v) { return [v](const Regs&, int x) { return x == v; }; };
  auto token = [](int life, int at) { return life * 10 + at; };
  Prog f;
  auto read = [&](int loc, int want) {
    f.push_back(ld(2, loc, NA));
    f.push_back(check([want](const Regs& r) { return r[2] == want; }));
  };
  auto progress = [&](int life) {
    f.push_back(await(0, GHINT, k[8].spec, [life](const Regs&, int v) { return v > 10 * life; }));
    f.push_back(ld(0, GSTATE, k[6].spec));
    f.push_back(ld(1, MADE, k[1].spec));
    f.push_back(check([](const Regs& r) { return r[1] >= 1; }));  // else the hint would be lost
    read(TOKEN0, token(life, 0));
    f.push_back(jump(int(f.size()) + 3, [](const Regs& r) { return r[1] < 2; }));
    read(TOKEN1, token(life, 1));
  };
  f.push_back(st(MADE, k[2].spec, val(0)));
  f.push_back(st(GSTATE, REL, val(Q(1))));
  if (!by_end) progress(1);
  f.push_back(await(0, GREAPED, AR, is(1)));
  f.push_back(st(MADE, k[2].spec, val(0)));
  f.push_back(cas(0, GSTATE, k[3].spec, val(C(1, 0)), val(Q(2))));
  if (by_end) {
    f.push_back(await(0, GSTATE, k[6].spec, is(DN(2))));
    read(TOKEN0, token(2, 0));
    read(TOKEN1, token(2, 1));
  } else {
    progress(2);
  }
  f.push_back(end());
  c.prog.push_back(f);
  for (int life = 1; life <= 2; life++) {
    Prog d = {await(0, GSTATE, RLX, is(Q(life))), cas(1, GSTATE, k[4].spec, val(Q(life)), val(C(life, life - 1)))};
    for (int at = 0; at < 2; at++) {
      d.push_back(st(at ? TOKEN1 : TOKEN0, NA, val(token(life, at))));
      d.push_back(st(MADE, k[0].spec, val(at + 1)));
      d.push_back(st(GHINT, k[7].spec, val(10 * life + at + 1)));
    }
    if (life == 1)
      d.push_back(st(GREAPED, AR, val(1)));  // the kernel orders all of it before waitid
    else
      d.push_back(cas(1, GSTATE, k[5].spec, val(C(2, 1)), val(DN(2))));
    d.push_back(end());
    c.prog.push_back(d);
  }
  c.must_end = [](int) { return true; };
  bool ok = c.run();
  states = c.seen.size();
  why = c.error;
  return ok;
}

static int bad = 0;
static void table(const char* title, std::vector<Knob> knobs,
                  bool (*program)(const std::vector<Knob>&, size_t&, std::string&, bool), bool variant) {
  static const char* names[] = {"plain", "relaxed", "acquire", "release", "acq_rel", "seq_cst"};
  size_t states;
  std::string why;
  bool ok = program(knobs, states, why, variant);
  printf("%s\n  as specified: %s, %zu states %s\n", title, ok ? "pass" : "FAIL", states, why.c_str());
  bad |= !ok;
  for (auto& k : knobs) {
    if (k.spec == k.weak) continue;
    auto w = knobs;
    for (auto& x : w)
      if (x.name == k.name) x.spec = k.weak;
    bool fine = program(w, states, why, variant);
    bool expected = fine != k.needed[variant];
    printf("  %-40s %-8s -> %-8s %s%s%s\n", k.name, names[k.spec], names[k.weak],
           fine ? "still correct" : "needed: ", fine ? "" : why.c_str(), expected ? "" : "   NOT as the table says");
    bad |= !expected;
  }
}
int main() {
  table("slot, ring and answer; the front door learns by the hint", slot_knobs, slot_program, false);
  table("slot, ring and answer; the front door learns by looking at the slot", slot_knobs, slot_program, true);
  table("sleep and wake", wake_knobs, wake_program, false);
  table("no wake-up because somebody is hungry", hungry_knobs, hungry_program, false);
  table("death and reuse", death_knobs, death_program, false);
  table("a dispatcher joins its route", mask_knobs, mask_program, false);
  table("tokens, read while they are made", token_knobs, token_program, false);
  table("tokens, read when the state says DONE", token_knobs, token_program, true);
  return bad;
}

// The shared segment, byte by byte: what is where, who writes each field, and what a crash leaves behind.
// The folder `layout` has the structs. docs/shared-memory.md is their prose; csrc/tests/model holds the checked models
// of the protocol that runs over them.
//
//   Header | Model × models | Route × routes | SupervisorLine | LoadLine | DoorLine × doors
//   | DispatcherLine × dispatchers | DeviceLine × devices | DoorRoute [door][route]
//   | request rings [door][route][class] | output rings [dispatcher][door] | control rings [door][dispatcher]
//   | Stats × (doors + dispatchers) | TenantTable × doors | UpstreamTable × dispatchers of an edge
//   | busy rings [dispatcher] | trace rings [door] | cards [route] | slots [door][slot, then canary slot of each
//   dispatcher] | large answers [door] | attachments [door]
//
// Rules: offsets, never pointers; trivially copyable data only; every word has one writer, or is changed by
// compare-and-swap as a whole; no process ever waits for another that may be dead.
//
// Writers, in brackets behind each field: D the front door that owns it, d the dispatcher that owns it, S the
// supervisor (of a dead process's words only after waitid has reaped it). A crash leaves: of D, slots in any state and
// rings with old entries (its next incarnation adopts and consumes them); of d, CLAIMED and LAUNCHED slots (each door
// settles its own once the death is published) and DONE slots without a hint (found by the same settling); of S,
// nothing: every child dies with it.
#pragma once
#include "core/layout/processes.h"
#include "core/layout/rings.h"
#include "core/layout/route.h"
#include "core/layout/slot.h"
#include "core/layout/stats.h"
#include "core/layout/tenant_table.h"
#include "core/layout/upstream_table.h"

namespace fastqps {

inline constexpr u64 kMagic = 0x0053505154534146;  // "FASTQPS\0", little-endian
inline constexpr u32 kFormat = 22;                 // grows with every change of these structs

// All sizes of a segment, and what else is settled with it. Everything else follows from these.
struct Sizes {
  u32 doors = 1;
  u32 dispatchers = 1;
  u32 models = 1;
  u32 devices = 1;
  u32 slots = 8192;      // per front door, a power of two
  u32 max_tokens = 512;  // ids that fit into a slot
  // Room for an answer in every slot: 4 × dimensions for an embedding, 8 × weights + 4 for a sparse one, 8 × labels for
  // a classifier, 8 × tokens for a generator. Answers whose length depends on the input, or with likeliest tokens, may
  // need more. Those that do take a large answer each.
  u64 answer_bytes = 0;
  u64 large_answers = 0;  // per front door
  u64 large_answer_bytes = 0;
  // Parts of the tokens that go to the classes in which requests wait. Suspects have none: they run alone.
  u32 class_weights[kClasses] = {16, 4, 1, 0};
  // Only for an edge, whose dispatchers send their steps to other servers; else 0.
  u32 caller_bytes = 0;  // room in every slot for its tenant, group and span: sizeof(CallerContext)
  u32 upstreams = 0;     // 1: each dispatcher has an UpstreamTable
  // Per front door: room for the parts of its requests that have no size of their own. Only for generators; else 0.
  u64 attachment_bytes = 0;
  u64 longest_answer() const { return std::max(answer_bytes, large_answer_bytes); }
  u32 routes() const { return models * kGenerations; }
  // All slots of a front door: those of requests, and behind them one for a canary of each dispatcher.
  u32 all_slots() const { return slots + dispatchers; }
  bool is_canary(u32 slot) const { return slot >= slots; }
};

struct Header {
  u64 magic;
  u32 format;
  u32 header_bytes;
  u64 layout_hash;  // of every struct's size and every offset: a stale extension beside a newer one is refused
  u64 boot_id[2];   // random, made with the segment
  u64 total_bytes;
  Sizes sizes;
  u64 models, routes, supervisor, load, door_lines, dispatcher_lines, device_lines;  // offsets from the segment's start
  u64 door_routes;
  u64 request_rings, output_rings, control_rings, stats, tenant_tables, upstream_tables, busy_rings, trace_rings;
  u64 cards, slots;
  u64 slot_stride, ids_offset, answer_offset, caller_offset;  // within a slot
  u64 large_answers, attachments;                             // offsets from the segment's start
};

}  // namespace fastqps

// The mapped segment: creation, attachment, and the one place that turns offsets into addresses.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "contract/types.h"
#include "core/layout.h"

namespace fastqps {

// Cheap to copy: an address. Lives as long as the process; the kernel frees the memory with the last one.
class Segment {
 public:
  // Makes a memfd of the computed size, every page of it allocated (a short tmpfs is an error here, never a SIGBUS
  // later), and maps it. The descriptor is close-on-exec; hand it down with pass_fds. On failure: fd -1 and the reason.
  struct Created {
    int fd = -1;
    std::string error;
  };
  static Created create(const Sizes& sizes);

  // Maps an existing segment and checks magic, format and layout. On failure: not valid() and the reason in *error.
  static Segment attach(int fd, std::string* error);

  bool valid() const { return base_ != nullptr; }
  // Keeps its pages in memory as long as this process lives. Returns false if the limit for locked memory is too low.
  bool lock() const;
  Header& header() const { return *at<Header>(0); }
  const Sizes& sizes() const { return header().sizes; }

  Model& model(u32 i) const { return at<Model>(header().models)[i]; }
  Route& route(u32 i) const { return at<Route>(header().routes)[i]; }
  SupervisorLine& supervisor() const { return *at<SupervisorLine>(header().supervisor); }
  LoadLine& load() const { return *at<LoadLine>(header().load); }
  DoorLine& door(u32 i) const { return at<DoorLine>(header().door_lines)[i]; }
  DispatcherLine& dispatcher(u32 i) const { return at<DispatcherLine>(header().dispatcher_lines)[i]; }
  DeviceLine& device(u32 i) const { return at<DeviceLine>(header().device_lines)[i]; }
  DoorRoute& door_route(u32 door, u32 route) const {
    return at<DoorRoute>(header().door_routes)[u64(door) * sizes().routes() + route];
  }
  BusyRing& busy_ring(u32 dispatcher) const { return at<BusyRing>(header().busy_rings)[dispatcher]; }
  TraceRing& trace_ring(u32 door) const { return at<TraceRing>(header().trace_rings)[door]; }
  TenantTable& tenant_table(u32 door) const { return at<TenantTable>(header().tenant_tables)[door]; }
  // Only for a dispatcher of an edge.
  UpstreamTable& upstream_table(u32 dispatcher) const {
    return at<UpstreamTable>(header().upstream_tables)[dispatcher];
  }
  Stats& door_stats(u32 i) const { return at<Stats>(header().stats)[i]; }
  Stats& dispatcher_stats(u32 i) const { return at<Stats>(header().stats)[header().sizes.doors + i]; }
  char* card(u32 route) const { return at<char>(header().cards + u64(route) * kCardBytes); }

  u64 ring_entries() const { return 2u * u64(sizes().slots); }
  RingLine& request_ring(u32 door, u32 route, u32 kind) const {
    u64 i = (u64(door) * sizes().routes() + route) * kClasses + kind;
    return *at<RingLine>(header().request_rings + i * ring_bytes(ring_entries()));
  }
  RingLine& output_ring(u32 dispatcher, u32 door) const {
    u64 i = u64(dispatcher) * sizes().doors + door;
    return *at<RingLine>(header().output_rings + i * ring_bytes(ring_entries()));
  }
  RingLine& control_ring(u32 door, u32 dispatcher) const {
    u64 i = u64(door) * sizes().dispatchers + dispatcher;
    return *at<RingLine>(header().control_rings + i * ring_bytes(kControlEntries));
  }
  Slot& slot(u32 door, u32 i) const {
    return *at<Slot>(header().slots + (u64(door) * sizes().all_slots() + i) * header().slot_stride);
  }
  Slot& canary_slot(u32 door, u32 dispatcher) const { return slot(door, sizes().slots + dispatcher); }
  // Whether the dispatcher that a CLAIMED or LAUNCHED word names is dead, reaped, and published to be so.
  bool dead(Word w) const { return w.epoch() <= dispatcher(w.owner() % sizes().dispatchers).dead_epoch.load(kSeqCst); }
  u32* ids(Slot& slot) const { return reinterpret_cast<u32*>(reinterpret_cast<char*>(&slot) + header().ids_offset); }
  // The room for the slot's answer. `large_answer` is the word of another process: it is read once, and a wrong one
  // leads to the slot's own room.
  std::span<u8> answer_room(Slot& slot) const {
    const u32 large = __atomic_load_n(&slot.large_answer, __ATOMIC_RELAXED);
    if (!large || large > u64(sizes().doors) * sizes().large_answers)
      return {reinterpret_cast<u8*>(&slot) + header().answer_offset, sizes().answer_bytes};
    return {at<u8>(header().large_answers + u64(large - 1) * sizes().large_answer_bytes), sizes().large_answer_bytes};
  }
  u8* answer(Slot& slot) const { return answer_room(slot).data(); }

  std::span<char> attachments(u32 door) const {
    return {at<char>(header().attachments + u64(door) * sizes().attachment_bytes), sizes().attachment_bytes};
  }
  // A part of the slot's request; empty: it has none. The words are those of another process: wrong ones lead to
  // nothing.
  std::string_view attached(u32 door, const Slot& slot, AttachmentKind kind) const {
    const std::span<char> room = attachments(door);
    const u64 begin = slot.attached[u32(kind)].begin, bytes = slot.attached[u32(kind)].bytes;
    return begin + bytes <= room.size() ? std::string_view(room.data() + begin, bytes) : std::string_view();
  }

  // Only for a slot of an edge.
  CallerContext& caller(Slot& slot) const {
    return *reinterpret_cast<CallerContext*>(reinterpret_cast<char*>(&slot) + header().caller_offset);
  }

  static u64 ring_bytes(u64 entries) { return (offsetof(RingLine, entry) + entries * sizeof(u64) + 63) / 64 * 64; }
  // The bytes that create() would allocate.
  static Header plan(const Sizes& sizes);

 private:
  template <class T>
  T* at(u64 offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  char* base_ = nullptr;
};

// Shared memory in pages of 2 MiB. With pages of 4 KiB, thousands of slots need more entries than a core's TLB has, and
// each request then waits for the page tables several times.

// Maps a file to read and write, at an address where its huge pages can be mapped as such. nullptr: errno says why.
void* map_for_huge_pages(int fd, u64 bytes);

// Makes huge pages of the file's pages, which must all be there, as far as the kernel can (Linux 6.1): it has no other
// effect, and needs no setting of the machine. 0, or the errno of what has failed.
int make_huge_pages(int fd, u64 bytes);

// Tries it with one page. Empty: it can be done; else why not.
std::string why_no_huge_pages();

}  // namespace fastqps

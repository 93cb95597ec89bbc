#include "core/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace fastqps {
namespace {

constexpr u64 round_up(u64 value, u64 to) { return (value + to - 1) / to * to; }

u64 hash(u64 h, u64 value) {
  h ^= value + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  return h * 0xff51afd7ed558ccdu;
}

std::string reason(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

// Everything but the boot id. A header has no padding.
bool same_layout(Header a, Header b) {
  std::memcpy(b.boot_id, a.boot_id, sizeof b.boot_id);
  static_assert(std::has_unique_object_representations_v<Header>);
  return std::memcmp(&a, &b, sizeof a) == 0;
}

}  // namespace

Header Segment::plan(const Sizes& sizes) {
  Header h{};
  h.magic = kMagic;
  h.format = kFormat;
  h.header_bytes = sizeof(Header);
  h.sizes = sizes;
  u64 end = round_up(sizeof(Header), 4096);
  auto place = [&](u64 bytes) {
    u64 here = end;
    end = round_up(end + bytes, 4096);
    return here;
  };
  u64 routes = sizes.routes(), entries = 2 * u64(sizes.slots);
  h.models = place(sizes.models * sizeof(Model));
  h.routes = place(routes * sizeof(Route));
  h.supervisor = place(sizeof(SupervisorLine));
  h.load = place(sizeof(LoadLine));
  h.door_lines = place(sizes.doors * sizeof(DoorLine));
  h.dispatcher_lines = place(sizes.dispatchers * sizeof(DispatcherLine));
  h.device_lines = place(sizes.devices * sizeof(DeviceLine));
  h.door_routes = place(sizes.doors * routes * sizeof(DoorRoute));
  h.request_rings = place(u64(sizes.doors) * routes * kClasses * ring_bytes(entries));
  h.output_rings = place(u64(sizes.dispatchers) * sizes.doors * ring_bytes(entries));
  h.control_rings = place(u64(sizes.doors) * sizes.dispatchers * ring_bytes(kControlEntries));
  h.stats = place((u64(sizes.doors) + sizes.dispatchers) * sizeof(Stats));
  h.tenant_tables = place(sizes.doors * sizeof(TenantTable));
  h.upstream_tables = place(sizes.upstreams ? sizes.dispatchers * sizeof(UpstreamTable) : 0);
  h.busy_rings = place(u64(sizes.dispatchers) * sizeof(BusyRing));
  h.trace_rings = place(sizes.doors * sizeof(TraceRing));
  h.cards = place(routes * kCardBytes);
  h.ids_offset = sizeof(Slot);
  h.answer_offset = round_up(h.ids_offset + u64(sizes.max_tokens) * sizeof(u32), 64);
  h.caller_offset = h.answer_offset + round_up(sizes.answer_bytes, 64);
  u64 lines = (h.caller_offset + round_up(sizes.caller_bytes, 64)) / 64;
  h.slot_stride = (lines | 1) * 64;  // an odd number of lines: neighbouring slots never share all their cache sets
  h.slots = place(u64(sizes.doors) * sizes.all_slots() * h.slot_stride);
  h.large_answers = place(u64(sizes.doors) * sizes.large_answers * sizes.large_answer_bytes);
  h.attachments = place(u64(sizes.doors) * sizes.attachment_bytes);
  h.total_bytes = end;
  u64 sum = kMagic;
  for (u64 value : {u64(kFormat),
                    sizeof(Header),
                    sizeof(Model),
                    sizeof(Route),
                    sizeof(SupervisorLine),
                    sizeof(LoadLine),
                    sizeof(DoorLine),
                    sizeof(DispatcherLine),
                    sizeof(DeviceLine),
                    sizeof(DoorRoute),
                    sizeof(BusyRing),
                    sizeof(TraceRing),
                    sizeof(TenantTable),
                    sizeof(UpstreamTable),
                    sizeof(Slot),
                    sizeof(Stats),
                    sizeof(Histogram),
                    offsetof(RingLine, entry),
                    h.slots,
                    h.slot_stride,
                    h.ids_offset,
                    h.answer_offset,
                    h.caller_offset,
                    h.large_answers,
                    h.attachments,
                    h.total_bytes})
    sum = hash(sum, value);
  h.layout_hash = sum;
  return h;
}

Segment::Created Segment::create(const Sizes& sizes) {
  if (!sizes.doors || sizes.doors > kDoorsMax) return {-1, "front doors: 1 to 32"};
  if (!sizes.dispatchers || sizes.dispatchers > kDispatchersMax) return {-1, "dispatchers: 1 to 64 in all"};
  if (!sizes.models || sizes.models > kModelsMax) return {-1, "models: 1 to 16"};
  if (!sizes.devices || sizes.devices > kDevicesMax) return {-1, "devices: 1 to 64"};
  if (sizes.slots < 2 || sizes.slots > 1u << 20 || (sizes.slots & (sizes.slots - 1)))
    return {-1, "slots: a power of two from 2 to 1048576"};
  if (sizes.caller_bytes && sizes.caller_bytes != sizeof(CallerContext))
    return {-1, "callers: the size of CallerContext"};
  if (sizes.upstreams > 1) return {-1, "upstreams: 0 or 1"};
  if (sizes.large_answer_bytes % 64) return {-1, "large answers: a multiple of 64 bytes"};
  if (sizes.attachment_bytes % 64) return {-1, "attachments: a multiple of 64 bytes"};
  if (std::find(sizes.class_weights, sizes.class_weights + kPriorities, 0u) != sizes.class_weights + kPriorities)
    return {-1, "class weights: at least 1"};
  Header h = plan(sizes);
  if (getrandom(h.boot_id, sizeof h.boot_id, 0) != sizeof h.boot_id) return {-1, reason("getrandom")};
  int fd = memfd_create("fastqps", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return {-1, reason("memfd_create")};
  auto fail = [fd](std::string why) {
    close(fd);
    return Created{-1, std::move(why)};
  };
  if (int e = posix_fallocate(fd, 0, off_t(h.total_bytes))) {
    errno = e;
    return fail(reason(("shared segment of " + std::to_string(h.total_bytes >> 20) + " MiB").c_str()));
  }
  make_huge_pages(fd, h.total_bytes);
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) < 0) return fail(reason("sealing the segment"));
  if (pwrite(fd, &h, sizeof h, 0) != ssize_t(sizeof h)) return fail(reason("writing the segment's header"));
  return {fd, {}};
}

Segment Segment::attach(int fd, std::string* error) {
  Segment none, made;
  Header h{};
  ssize_t got = pread(fd, &h, sizeof h, 0);
  if (got < 0) return *error = reason("reading the segment's header"), none;
  if (got < ssize_t(sizeof h.magic) || h.magic != kMagic) return *error = "not a fastqps segment", none;
  if (got != ssize_t(sizeof h) || h.format != kFormat || !same_layout(h, plan(h.sizes)))
    return *error = "the segment was made by another build of fastqps (format " + std::to_string(h.format) + ")", none;
  struct stat st;
  if (fstat(fd, &st) < 0 || u64(st.st_size) < h.total_bytes)
    return *error = "the segment is shorter than its header says", none;
  void* base = map_for_huge_pages(fd, h.total_bytes);
  if (!base) return *error = reason("mapping the segment"), none;
  made.base_ = static_cast<char*>(base);
  return made;
}

bool Segment::lock() const { return mlock(base_, header().total_bytes) == 0; }

namespace {
constexpr u64 kHugePage = 2 << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, which older headers lack
}  // namespace

void* map_for_huge_pages(int fd, u64 bytes) {
  const u64 page = u64(sysconf(_SC_PAGESIZE));
  const u64 reserved = round_up(bytes, page) + kHugePage;
  void* space = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return nullptr;
  const u64 begin = reinterpret_cast<uintptr_t>(space);
  const u64 at = round_up(begin, kHugePage);
  void* mapped = mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) return munmap(space, reserved), nullptr;
  const u64 end = at + round_up(bytes, page);
  if (at > begin) munmap(space, at - begin);
  munmap(reinterpret_cast<void*>(end), begin + reserved - end);
  return mapped;
}

int make_huge_pages(int fd, u64 bytes) {
  void* mapped = map_for_huge_pages(fd, bytes);
  if (!mapped) return errno;
  const int error = madvise(mapped, bytes, kCollapse) ? errno : 0;
  munmap(mapped, bytes);
  return error;
}

std::string why_no_huge_pages() {
  const int fd = memfd_create("fastqps-huge-page", MFD_CLOEXEC);
  if (fd < 0) return std::string("memfd_create: ") + std::strerror(errno);
  int error = posix_fallocate(fd, 0, off_t(kHugePage));
  if (!error) error = make_huge_pages(fd, kHugePage);
  close(fd);
  return error ? std::strerror(error) : "";
}

}  // namespace fastqps

#include "transport/rpc/method.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace fastqps::transport {

// The end of a path tells methods apart, the length most of the rest.
u32 MethodTable::hash(std::string_view path) {
  u64 tail = 0;
  if (path.size() >= 8) std::memcpy(&tail, path.data() + path.size() - 8, 8);
  return u32(((tail ^ path.size()) * 0x9e3779b97f4a7c15u) >> 40) % (4 * kMax);
}

std::string_view service_of(const MethodRow& row) {
  const std::string_view path = row.path;
  return path.substr(1, path.rfind('/') - 1);
}

bool MethodTable::add(MethodRow row) {
  const std::string_view path = row.path;
  const size_t slash = path.find('/', 1);
  const bool shaped = path.starts_with('/') && slash != path.npos && slash > 1 && slash + 1 < path.size();
  if (!shaped || rows_.size() == kMax || find(path) >= 0) return false;
  u32 at = hash(path);
  while (table_[at]) at = (at + 1) % (4 * kMax);
  rows_.push_back(std::move(row));
  table_[at] = i32(rows_.size());
  return true;
}

int MethodTable::find(std::string_view path) const {
  for (u32 at = hash(path); table_[at]; at = (at + 1) % (4 * kMax))
    if (rows_[table_[at] - 1].path == path) return table_[at] - 1;
  return -1;
}

bool MethodTable::knows_service(std::string_view service) const {
  return std::any_of(rows_.begin(), rows_.end(), [&](const MethodRow& row) { return service_of(row) == service; });
}

}  // namespace fastqps::transport

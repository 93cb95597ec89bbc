// The table of methods by full path, matched exactly. It is filled before the loop starts, and read-only afterwards.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "core/layout.h"
#include "transport/rpc/method.h"

namespace fastqps::transport {

// How the transport treats a method's calls.
enum class MethodRole : u8 {
  kService,  // messages as long as messages may be, traces, load reports; the method keeps the deadline of its requests
  kControl,  // short messages; the transport keeps the deadline
  kText,     // as kControl, with messages of texts to tokenize
  kProbe,    // as kControl, and needs no token
};

struct MethodRow {
  std::string path;  // "/package.Service/Method"
  MethodKind kind;
  Method* method;
  MethodRole role = MethodRole::kService;
  Rpc rpc = kOther;  // the name of its calls in traces
};

// "package.Service"
std::string_view service_of(const MethodRow& row);

class MethodTable {
 public:
  static constexpr u32 kMax = 64;

  // Returns false if there is no room, or if the path is not "/service/method" or exists already.
  bool add(MethodRow row);
  // The method's place in all(), or -1.
  int find(std::string_view path) const;
  bool knows_service(std::string_view service) const;
  const std::vector<MethodRow>& all() const { return rows_; }

 private:
  static u32 hash(std::string_view path);

  std::vector<MethodRow> rows_;
  i32 table_[4 * kMax] = {};  // place + 1; 0: free
};

}  // namespace fastqps::transport

// Which methods exist: full paths, matched exactly. Filled before the loop starts, read-only afterwards.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "grpc/service.h"

namespace fastqps::front {

enum class Handler : u8 { kService, kRare, kHealth, kLoad };

struct Method {
  std::string path;  // "/package.Service/Method"
  MethodKind kind;
  Handler handler;
  u16 id;  // chosen by who added it, handed to on_message; unique per handler
};

class MethodTable {
 public:
  static constexpr u32 kMax = 64;

  // False: no room, a path that is not "/service/method", or one that is there already.
  bool add(std::string_view path, MethodKind kind, u16 id, Handler handler = Handler::kService);
  // The method's place in all(), or -1.
  int find(std::string_view path) const;
  bool knows_service(std::string_view service) const;
  const std::vector<Method>& all() const { return methods_; }

 private:
  static u32 hash(std::string_view path);

  std::vector<Method> methods_;
  i32 table_[4 * kMax] = {};  // place + 1; 0: free
};

}  // namespace fastqps::front

// The protocols beside fastqps.v1. A new one is a row in protocols.cpp and a folder with what reads and writes it.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "service/formats/protocol.h"
#include "service/methods.h"
#include "service/tables/routes.h"
#include "transport/http/http_routes.h"
#include "transport/rpc/method.h"

namespace fastqps::protocols {

// The methods of all protocols: a path, and what answers its calls.
class Methods final : public service::Protocol {
 public:
  // version: of fastqps, which edges compare.
  Methods(const service::ItemsPath& path, service::ModelRoutes& routes, const service::DoorMemory& memory,
          std::string version)
      : path(path), routes(routes), memory(memory), version(std::move(version)) {}

  // Adds the methods of every protocol.
  void add_all();

  // Makes an object that lives as long as these methods.
  template <class T, class... Args>
  T& make(Args&&... args) {
    const auto made = std::make_shared<T>(std::forward<Args>(args)...);
    made_.push_back(made);
    return *made;
  }
  service::ItemsMethod& items(service::RequestReader& reader, const service::AnswerWriter& writer, Rpc rpc) {
    return make<service::ItemsMethod>(path, reader, writer, rpc);
  }
  void unary(const char* name, service::RequestReader& reader, const service::AnswerWriter& writer, Rpc rpc) {
    rpcs_.push_back({name, transport::MethodKind::kUnary, &items(reader, writer, rpc), kRole, rpc});
  }
  void stream(const char* name, service::RequestReader& reader, const service::AnswerWriter& writer, Rpc rpc,
              service::GroupKind kind) {
    stream(name, make<service::StreamMethod>(path, reader, writer, rpc, kind), rpc);
  }
  void stream(const char* name, transport::Method& method, Rpc rpc) {
    rpcs_.push_back({name, transport::MethodKind::kBidi, &method, kRole, rpc});
  }
  void post(const char* pattern, transport::Method& method, Rpc rpc,
            transport::ErrorWriter errors = transport::write_error_text) {
    posts_.push_back({transport::HttpVerb::kPost, pattern, &method, kRole, rpc, errors});
  }

  void add_methods(transport::MethodTable& table) override {
    for (const transport::MethodRow& row : rpcs_) table.add(row);
  }
  void add_routes(transport::HttpRoutes& table) override {
    for (const transport::HttpRow& row : posts_) table.add(row);
  }

  const service::ItemsPath& path;
  service::ModelRoutes& routes;
  const service::DoorMemory& memory;
  const std::string version;

 private:
  static constexpr auto kRole = transport::MethodRole::kService;
  std::vector<std::shared_ptr<void>> made_;
  std::vector<transport::MethodRow> rpcs_;
  std::vector<transport::HttpRow> posts_;
};

// In whose form the errors of a protocol's routes are. Of a name that no protocol has: {"error": "MESSAGE"}.
transport::ErrorWriter errors_of(std::string_view protocol);

}  // namespace fastqps::protocols

// The protocols beside fastqps.v1. A new one is a row in protocols.cpp and a folder with what reads and writes it.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "service/predict_service.h"

namespace fastqps::protocols {

inline constexpr const char* kVertexPath = "/vertex";

// The methods of all protocols: a path, and what answers its calls.
class Methods {
 public:
  // version: of fastqps, which edges compare.
  Methods(service::PredictService& service, const DoorSettings& settings, std::string version)
      : settings(settings),
        path(service.items_path()),
        routes(service.routes()),
        memory(service.memory()),
        version(std::move(version)),
        service_(service) {}

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
    return make<service::ItemsMethod>(path, reader, service::Answering{writer, rpc});
  }
  void unary(const char* name, service::RequestReader& reader, const service::AnswerWriter& writer, Rpc rpc) {
    service_.add(transport::MethodRow{name, transport::MethodKind::kUnary, &items(reader, writer, rpc), kRole, rpc});
  }
  void stream(const char* name, service::RequestReader& reader, const service::AnswerWriter& writer, Rpc rpc,
              service::GroupKind kind) {
    stream(name, make<service::StreamMethod>(path, reader, writer, rpc, kind), rpc);
  }
  void stream(const char* name, transport::Method& method, Rpc rpc) {
    service_.add(transport::MethodRow{name, transport::MethodKind::kBidi, &method, kRole, rpc});
  }
  void post(const char* pattern, transport::Method& method, Rpc rpc,
            transport::ErrorWriter errors = transport::write_error_text) {
    service_.add(transport::HttpRow{transport::HttpVerb::kPost, pattern, &method, kRole, rpc, errors});
  }

  const DoorSettings& settings;
  const service::ItemsPath& path;
  service::ModelRoutes& routes;
  const service::DoorMemory& memory;
  const std::string version;

 private:
  static constexpr auto kRole = transport::MethodRole::kService;
  service::PredictService& service_;
  std::vector<std::shared_ptr<void>> made_;
};

// In whose form the errors of a protocol's routes are. Of a name that no protocol has: {"error": "MESSAGE"}.
transport::ErrorWriter errors_of(std::string_view protocol);

}  // namespace fastqps::protocols

// Another protocol than fastqps.v1: the methods that it adds to the tables of the transport. They are made over
// PredictService::items_path().
#pragma once

namespace fastqps::transport {
class HttpRoutes;
class MethodTable;
}  // namespace fastqps::transport

namespace fastqps::service {

class Protocol {
 public:
  virtual ~Protocol() = default;
  virtual void add_methods(transport::MethodTable&) {}
  virtual void add_routes(transport::HttpRoutes&) {}
};

}  // namespace fastqps::service

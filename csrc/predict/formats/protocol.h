// Another protocol than fastqps.v1: the methods that it adds to the tables of the transport. They are made over
// PredictService::items_path().
#pragma once

namespace fastqps::front {

class HttpRoutes;
class MethodTable;

class Protocol {
 public:
  virtual ~Protocol() = default;
  virtual void add_methods(MethodTable&) {}
  virtual void add_routes(HttpRoutes&) {}
};

}  // namespace fastqps::front

// Checks a request against the limits of all models (check_request.cpp) and of the model that it names. Each refusal
// names the field, the value and the limit.
#pragma once
#include <string_view>

#include "predict/tables/model_routes.h"
#include "predict/tables/refusal.h"
#include "wire/request_view.h"
#include "wire/response_view.h"

namespace fastqps::front {

class RequestChecker {
 public:
  RequestChecker(ModelRoutes& routes, RefusalWriter& refusals) : routes_(routes), refusals_(refusals) {}

  // Reads a message and finds the route that serves its model. After a refusal `view` holds the fields that could be
  // read, at least the request_id if there is one.
  Refusal check(std::string_view message, Rpc method, RequestView& view, u32& route);

 private:
  Refusal check_encoder(const RequestView& view, u32 route, Rpc method);
  Refusal check_generator(const RequestView& view, u32 route);
  Refusal check_token_options(const RequestView& view, u32 route);
  Refusal not_served(std::string_view model);

  ModelRoutes& routes_;
  RefusalWriter& refusals_;
};

}  // namespace fastqps::front

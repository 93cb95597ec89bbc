// Checks a request against the limits of all models (check_request.cpp) and of the model that it names. Each refusal
// names the field, the value and the limit.
#pragma once
#include <string_view>

#include "contract/request_view.h"
#include "contract/response_view.h"
#include "service/tables/items.h"
#include "service/tables/model_routes.h"
#include "service/tables/refusal.h"

namespace fastqps::service {

class RequestChecker {
 public:
  RequestChecker(ModelRoutes& routes, RefusalWriter& refusals) : routes_(routes), refusals_(refusals) {}

  // Finds the route that serves the request's model.
  Refusal check(const RequestView& view, const Origin& from, u32& route);
  Refusal refuse(const FieldError& error) { return refusals_.refuse(error); }

 private:
  Refusal check_options(const OutputOptions& output, u32 route);
  Refusal check_encoder(const RequestView& view, u32 route, bool streams);
  Refusal check_pair(const RequestView& view, u32 route);
  Refusal check_generator(const RequestView& view, u32 route);
  Refusal check_token_options(const RequestView& view, u32 route);
  Refusal not_served(std::string_view model);
  Refusal check_task(Output wants, u32 route);
  Refusal meaningless(const char* field, u32 value, u32 route);

  ModelRoutes& routes_;
  RefusalWriter& refusals_;
};

}  // namespace fastqps::service

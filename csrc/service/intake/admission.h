// Whether a request is accepted: by its own fields, and by what waits.
#pragma once
#include <string_view>

#include "contract/request_view.h"
#include "contract/response_view.h"
#include "service/tables/tables.h"

namespace fastqps::service {

// Checks a request against the limits of all models (check_request.cpp) and of the model that it names. Each refusal
// names the field, the value and the limit.
class RequestChecker {
 public:
  // answer_room: the bytes of the longest answer that the server has room for.
  RequestChecker(ModelRoutes& routes, RefusalWriter& refusals, u64 answer_room)
      : routes_(routes), refusals_(refusals), answer_room_(answer_room) {}

  // Finds the route that serves the request's model.
  Refusal check(const RequestView& view, const Origin& from, u32& route);

 private:
  Refusal check_options(const OutputOptions& output, u32 route);
  Refusal check_encoder(const RequestView& view, u32 route, bool streams);
  Refusal check_pair(const RequestView& view, u32 route);
  Refusal check_generator(const RequestView& view, u32 route);
  Refusal check_token_options(const RequestView& view, u32 route);
  Refusal not_served(std::string_view model);
  // Whether the model's answers are of the kind that a protocol wants.
  bool can_answer(Output wants, u32 route) const;
  Refusal check_task(Output wants, u32 route);
  Refusal meaningless(const char* field, u32 value, u32 route);

  ModelRoutes& routes_;
  RefusalWriter& refusals_;
  const u64 answer_room_;
};

// Decides whether a route accepts one more request, before the request is tokenized, so that a rejection costs
// microseconds.
class Admission {
 public:
  explicit Admission(Tables& tables) : tables_(tables) {}

  // The client's timeout binds the whole call, up to the server's maximum. Without one an item has the server's default
  // from the time when its turn comes: items of its own call before it do not count.
  ItemTime time_of(const RequestView& view, const Origin& from) const;
  // A request is refused for what is served before it, never for what is served behind it.
  Refusal check(const RequestView& view, u32 route, TenantId tenant, const Origin& from, u64 now, const ItemTime& time);
  // The rejection if all slots are in use.
  Refusal no_slot(u32 route, u32 kind, u32 group);

 private:
  // A request that would be late, by what is served before it.
  struct Late {
    u32 route, kind;
    double share;
    u64 ahead, predicted_ns;
  };
  Refusal check_late(const Late& late, const Origin& from, u64 now, const ItemTime& time);
  Refusal check_share(u32 route, u32 kind, TenantId tenant, const Origin& from, u64 predicted_ns);
  bool has_few(u32 route, u32 kind, TenantId tenant, const Origin& from) const;
  u64 ahead(u32 route, u32 kind, TenantId tenant) const;

  Tables& tables_;
};

}  // namespace fastqps::service

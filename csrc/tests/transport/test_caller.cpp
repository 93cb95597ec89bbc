// The headers that name a call's tenant and group, in every protocol, and what is wrong with them.
#include "tests/transport/http1_client.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

struct Named {
  std::string tenant, group;
  explicit Named(const CallInfo& info) {
    if (!info.caller.names) return;
    tenant = info.caller.names->tenant.value();
    group = info.caller.names->group.value();
  }
};

// What a method sees while the call is open, and how the call ends: a gRPC status, or an HTTP status.
struct Seen {
  std::string code, message, tenant, group;
};

// As the service keeps the info beyond the call, the views are read while it waits.
Seen open_call(Fixture& fixture, CallId call) {
  const Named named(fixture.service.last_info);
  fixture.service.finish(call);
  fixture.service.waiting.clear();
  return {"", "", named.tenant, named.group};
}

Seen over_grpc(Fixture& fixture, const Fields& headers) {
  Client client(fixture.door);
  StreamAnswer& stream = client.ask("/test.Service/Later", framed("x"), true, headers);
  Seen seen;
  if (!fixture.service.waiting.empty()) seen = open_call(fixture, fixture.service.waiting[0]);
  client.run();
  seen.code = stream.code();
  seen.message = stream.fields["grpc-message"];
  return seen;
}

Seen over_http2(Fixture& fixture, const Fields& headers) {
  Client client(fixture.door);
  client.content_type = "application/json";
  StreamAnswer& stream = client.ask("/later", "x", true, headers);
  Seen seen;
  if (!fixture.service.waiting.empty()) seen = open_call(fixture, fixture.service.waiting[0]);
  client.run();
  seen.code = stream.fields[":status"];
  seen.message = stream.data;
  return seen;
}

Seen over_http1(Fixture& fixture, const Fields& headers) {
  std::string lines;
  for (const auto& [name, value] : headers) lines += name + ": " + value + "\r\n";
  Http1Client client(fixture.door);
  client.send(post("/later", "x", lines));
  client.run();
  Seen seen;
  if (!fixture.service.waiting.empty()) seen = open_call(fixture, fixture.service.waiting[0]);
  const std::vector<Response> found = client.responses(1);
  seen.code = std::to_string(found.at(0).status);
  seen.message = found.at(0).body;
  return seen;
}

const std::string kLongest(kTenantBytesMax, 't');

}  // namespace

TEST(names_reach_the_method_of_every_protocol) {
  for (const auto ask : {over_grpc, over_http2, over_http1}) {
    Fixture fixture;
    const auto check = [&](const Fields& headers, const std::string& tenant, const std::string& group) {
      const Seen seen = ask(fixture, headers);
      CHECK(seen.code == "0" || seen.code == "200");
      CHECK_EQ(seen.tenant, tenant);
      CHECK_EQ(seen.group, group);
    };
    check({}, "", "");
    check({{"fastqps-tenant", "acme"}}, "acme", "");
    check({{"fastqps-group", "run 7"}, {"other", "x"}, {"fastqps-tenant", "żółć"}}, "żółć", "run 7");
    check({{"fastqps-tenant", kLongest}, {"fastqps-group", std::string(kGroupBytesMax, 'g')}}, kLongest,
          std::string(kGroupBytesMax, 'g'));
    check({{"fastqps-tenant", ""}}, "", "");
    check({}, "", "");  // nothing of the calls before is left
    fixture.door.calls.tenant_header = "x-customer";
    check({{"fastqps-tenant", "acme"}, {"x-customer", "other"}}, "other", "");
    fixture.door.calls.tenant_header = "";
    check({{"x-customer", "acme"}, {"fastqps-tenant", "acme"}, {"fastqps-group", "g"}}, "", "g");
  }
}

TEST(what_is_no_name_is_refused) {
  struct Case {
    Fields headers;
    std::string message;
  };
  const Case cases[] = {
      {{{"fastqps-tenant", std::string(10'000, 't')}}, "fastqps-tenant: 10000 bytes, must be at most 256"},
      {{{"fastqps-group", std::string(129, 'g')}}, "fastqps-group: 129 bytes, must be at most 128"},
      {{{"fastqps-tenant", "a"}, {"fastqps-tenant", "a"}}, "fastqps-tenant must be given once, in UTF-8"},
      {{{"fastqps-tenant", ""}, {"fastqps-tenant", "a"}}, "fastqps-tenant must be given once, in UTF-8"},
      {{{"fastqps-group", "a"}, {"fastqps-group", ""}}, "fastqps-group must be given once, in UTF-8"},
      {{{"fastqps-group", "a\xff"}}, "fastqps-group must be given once, in UTF-8"},
      {{{"fastqps-group", std::string(300, 'g')}, {"fastqps-tenant", "\xc0\x80"}},
       "fastqps-tenant must be given once, in UTF-8"},
  };
  for (const Case& each : cases) {
    Fixture fixture;
    const Seen grpc = over_grpc(fixture, each.headers), http2 = over_http2(fixture, each.headers),
               http1 = over_http1(fixture, each.headers);
    CHECK_EQ(grpc.code, "3");
    CHECK_EQ(grpc.message, each.message);
    CHECK_EQ(http2.code, "400");
    CHECK_EQ(http2.message, "{\"error\":\"" + each.message + "\"}");
    CHECK_EQ(http1.code, "400");
    CHECK_EQ(http1.message, http2.message);
    CHECK_EQ(fixture.service.told, 0);
  }
}

// All messages of a stream have the names of their call, whatever other calls of the connection say.
TEST(a_stream_keeps_its_names) {
  Fixture fixture;
  Client client(fixture.door);
  const i32 stream = client.call("/test.Service/Stream", framed("1"), false, {{"fastqps-tenant", "first"}});
  client.run();
  CHECK_EQ(Named(fixture.service.last_info).tenant, "first");
  client.ask("/test.Service/Stream", framed("2"), false, {{"fastqps-tenant", "second"}});
  CHECK_EQ(Named(fixture.service.last_info).tenant, "second");
  client.more(stream, framed("3"), false);
  client.run();
  CHECK_EQ(Named(fixture.service.last_info).tenant, "first");
  client.reset(stream);
  client.run();
}

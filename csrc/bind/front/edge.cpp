// The dispatcher of an edge. It is in this extension, not beside the steppers, because it needs the transport.
#include <pybind11/stl.h>

#include <algorithm>
#include <cmath>

#include "bind/bind.h"
#include "edge/edge_dispatcher.h"
#include "edge/upstreams.h"
#include "h2client/client_tls.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

using edge::EdgeDispatcher;
using edge::EdgeOptions;
using edge::Target;
using Pem = std::tuple<py::bytes, py::bytes, py::bytes>;  // authorities, certificate, key

// Keeps alive what the dispatcher refers to.
struct EdgeHandle {
  WakeFds fds;
  EdgeDispatcher own;
  EdgeHandle(const SegmentHandle& s, const WakeFds& wake, u32 me, u32 epoch, u32 route, EdgeOptions options)
      : fds(wake), own(s.segment, &fds, me, epoch, route, std::move(options)) {}
};

std::shared_ptr<const h2client::ClientTls> make_tls(const Pem& pem) {
  std::string fault;
  auto made = h2client::ClientTls::make({std::get<0>(pem), std::get<1>(pem), std::get<2>(pem)}, &fault);
  if (made) return made;
  const py::object error = py::module_::import("fastqps._front").attr("TlsError");
  PyErr_SetObject(error.ptr(), py::str(fault).ptr());
  throw py::error_already_set();
}

std::unique_ptr<EdgeHandle> open(const SegmentHandle& s, const WakeFds& fds, u32 index, u32 epoch, u32 route,
                                 u32 max_items, u32 connections, std::string model, std::string version,
                                 u32 max_input_tokens, u32 max_output_tokens, std::string token,
                                 const std::optional<Pem>& tls) {
  if (index >= s.segment.sizes().dispatchers || route >= s.segment.sizes().routes()) throw py::index_error();
  if (!s.segment.sizes().upstreams) throw py::value_error("the segment is not an edge's");
  if (!max_items || max_items > edge::kStepItemsMax || !connections) throw py::value_error("items and connections");
  EdgeOptions options{.terms = {std::move(model), std::move(version), max_input_tokens, max_output_tokens},
                      .call = {.path = edge::kStepRunPath, .authority = {}, .token = std::move(token)},
                      .max_items = max_items,
                      .connections = connections};
  const u64 answer_bytes = std::max(s.segment.sizes().answer_bytes, s.segment.sizes().large_answer_bytes);
  options.call.message_bytes_max = std::max(options.call.message_bytes_max, u32(answer_bytes) + (64 << 10));
  if (tls) options.call.tls = make_tls(*tls);
  return std::make_unique<EdgeHandle>(s, fds, index, epoch, route, std::move(options));
}

using Named = std::tuple<std::string, std::string, u16, std::string>;  // for people, IP address, port, in certificates

Target target(const Named& from) {
  const auto& [name, ip, port, tls_name] = from;
  auto address = h2client::Address::of(ip, port);
  if (!address) throw py::value_error(ip + " is no IP address");
  address->name = name;
  return {std::move(*address), tls_name};
}

void set_upstreams(EdgeHandle& self, const std::vector<Named>& from) {
  std::vector<Target> targets;
  for (const Named& each : from) targets.push_back(target(each));
  self.own.set_upstreams(std::move(targets));
}

void set_credentials(EdgeHandle& self, std::string token, const std::optional<Pem>& tls) {
  self.own.set_credentials(std::move(token), tls ? make_tls(*tls) : nullptr);
}

u64 nanoseconds(double seconds) { return u64(std::clamp(seconds, 0.0, 60.0) * 1e9); }

edge::ProbeAnswer probe(const Named& address, std::string model, std::string version, u32 max_input_tokens,
                        u32 max_output_tokens, std::string token, const std::optional<Pem>& tls, double timeout_s) {
  const edge::Terms terms{std::move(model), std::move(version), max_input_tokens, max_output_tokens};
  upstream::CallSettings call{.path = edge::kStepRunPath, .authority = {}, .token = std::move(token)};
  if (tls) call.tls = make_tls(*tls);
  const py::gil_scoped_release nogil;
  return edge::probe(target(address), terms, std::move(call), nanoseconds(timeout_s));
}

bool turn(EdgeHandle& self, double timeout_s) {
  const py::gil_scoped_release nogil;
  return self.own.turn(nanoseconds(timeout_s));
}

}  // namespace

void register_edge(py::module_& m) {
  py::class_<EdgeHandle>(m, "EdgeDispatcher", "The native loop of an edge's dispatcher.")
      .def(py::init(&open), "segment"_a, "wake_fds"_a, "index"_a, py::kw_only(), "epoch"_a, "route"_a, "max_items"_a,
           "connections"_a, "model"_a, "version"_a, "max_input_tokens"_a, "max_output_tokens"_a, "token"_a, "tls"_a,
           "tls: authorities (empty: the system's), certificate and key (empty: none) as PEM; None: no TLS.")
      .def("set_upstreams", &set_upstreams, "addresses"_a,
           "Any thread: the servers, each as its name, IP address, port, and the name in its certificate.")
      .def("set_credentials", &set_credentials, "token"_a, "tls"_a,
           "Any thread: connections are opened with these from now on. TlsError as at the start.")
      .def("turn", &turn, "timeout_s"_a,
           "Sends and receives what there is, or waits. False: this process has been declared dead.")
      .def(
          "drain", [](EdgeHandle& self) { return self.own.drain(); },
          "From now on it claims nothing. Whether all that it has claimed is answered.")
      .def("set_ready", [](EdgeHandle& self) { self.own.set_ready(); })
      .def("leave", [](EdgeHandle& self) { self.own.leave(); })
      .def(
          "news", [](EdgeHandle& self) { return self.own.take_news(); }, "Lines for the log since the last call.");
  using edge::ProbeAnswer;
  py::class_<ProbeAnswer>(m, "ProbeAnswer", "What a server has said to an edge that asked it once.")
      .def_property_readonly(
          "state", [](const ProbeAnswer& a) { return kUpstreamStateNames[u32(a.state)]; },
          "One of UPSTREAM_STATES; serving: it would take an edge's items.")
      .def_readonly("reason", &ProbeAnswer::reason, "Of any other state.")
      .def_readonly("server", &ProbeAnswer::server, "Its version of fastqps.")
      .def_readonly("max_input_tokens", &ProbeAnswer::max_input_tokens)
      .def_readonly("max_output_tokens", &ProbeAnswer::max_output_tokens)
      .def_readonly("max_inflight", &ProbeAnswer::max_inflight)
      .def_readonly("rtt_ns", &ProbeAnswer::rtt_ns)
      .def_property_readonly("utilization_thousandth",
                             [](const ProbeAnswer& a) { return a.load.utilization_thousandth; })
      .def_property_readonly("waiting", [](const ProbeAnswer& a) { return a.load.waiting; })
      .def_property_readonly("running", [](const ProbeAnswer& a) { return a.load.running; });
  m.def("probe", &probe, "address"_a, py::kw_only(), "model"_a, "version"_a, "max_input_tokens"_a,
        "max_output_tokens"_a, "token"_a, "tls"_a, "timeout_s"_a,
        "Asks one server whether it would take an edge's items. TlsError: PEM texts that are no use.");
}

}  // namespace fastqps::bind

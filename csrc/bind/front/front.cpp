#include <malloc.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <tuple>

#include "bind/bind.h"
#include "bind/segment.h"
#include "core/segment.h"
#include "protocols/oip/output_tensors.h"
#include "protocols/protocols.h"
#include "service/predict_service.h"
#include "transport/loop/front_door.h"
#include "transport/standard/page.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

using namespace fastqps::protocols;
using namespace fastqps::service;
using namespace fastqps::transport;

PyObject* tls_error = nullptr;  // fastqps._front.TlsError: (part, what is wrong with it)

// Text of a client, which may be anything: bytes that are not UTF-8 become U+FFFD.
py::str text_of(const std::string& bytes) {
  return py::reinterpret_steal<py::str>(PyUnicode_DecodeUTF8(bytes.data(), Py_ssize_t(bytes.size()), "replace"));
}

// One front door: segment, service and loop, in the order in which they need one another.
class Door {
 public:
  Door(const SegmentHandle& handle, const WakeFds& wake, u32 index, const DoorSettings& settings)
      : settings_(settings),
        segment_(handle.segment),
        fds_(wake),
        service_(segment_, &fds_, service::PredictOptions{.door = index, .settings = settings_}),
        methods_(service_, settings_, kBuiltVersion) {
    methods_.add_all();
    loop_ = std::make_unique<transport::FrontDoor>(
        service_, transport::Limits{.settings = settings_},
        transport::LoopFds{.listener = settings_.listener_fd, .wake = fds_.door[index], .http = settings_.http_fd},
        counters_,
        transport::Reports{{&segment_.load(), settings_.load_reports}, trace_source(segment_, index, settings_)});
    loop_->set_tenant_header(settings_.tenant_header);
    service_.set_loop(loop_.get(), &counters_);
  }

  const DoorSettings& settings() const { return settings_; }
  i32 number_of(std::string_view model) { return service_.routes().number(model); }

  // card: JSON of the route's ModelCard.
  // tokenizer: path of a tokenizer.json that is native here, or empty. external: texts go to next_texts().
  // special_tokens: those that it adds to a text. detokenizer: as tokenizer, of a model that generates.
  // specials: how many special tokens it puts in front of a text and behind it; of other models (0, 0).
  // From any thread; the loop takes it over between two turns.
  void set_route(u32 route, u32 generation, const std::string& card, const std::string& tokenizer,
                 const std::string& special_tokens, bool external, const std::string& detokenizer,
                 std::pair<u32, u32> specials) {
    if (route >= segment_.sizes().routes()) throw py::index_error();
    const auto special = bind::special_tokens(special_tokens);
    service::RouteSetup setup;
    setup.generation = generation;
    setup.set_card(read_model_card(card));
    setup.external_tokenizer = external;
    setup.specials = {specials.first, specials.second};
    const py::gil_scoped_release nogil;  // a large tokenizer takes a second
    std::string why;
    if (!tokenizer.empty()) {
      setup.tokenizer = text::load_native(tokenizer, &why, special);
      if (!setup.tokenizer) throw py::value_error(why);
      setup.of_long_texts = setup.tokenizer->clone();
      setup.check_ids = setup.tokenizer->vocab_size() > segment_.route(route).vocab_size;
    }
    if (!detokenizer.empty()) {
      setup.detokenizer = text::load_detokenizer(detokenizer, &why);
      if (!setup.detokenizer) throw py::value_error(why);
    }
    service_.setups().offer(route, std::move(setup));
  }
  // Its generation has gone, and nobody has anything of it: frees what was loaded for it. While the loop runs.
  void drop_route(u32 route) {
    if (route >= segment_.sizes().routes()) throw py::index_error();
    const py::gil_scoped_release nogil;
    service::RouteSetup setup;
    setup.dropped = true;
    service_.setups().offer(route, std::move(setup));
    service_.setups().free_replaced(kTakenMs);
  }

  // PEM texts. Before run(), or at any time from another thread: for connections that begin from then on.
  void set_tls(const py::bytes& certificate, const py::bytes& key, const py::bytes& client_ca) {
    std::shared_ptr<transport::TlsContext> made;
    transport::TlsFault fault;
    const transport::TlsPem pem{certificate, key, client_ca};
    {
      py::gil_scoped_release nogil;
      made = transport::TlsContext::make(pem, transport::TlsContext::Dates::kIgnored, &fault);
    }
    if (!made) throw py::value_error(fault.text);
    loop_->set_tls(std::move(made));
  }
  // SHA-256 digests; for calls that begin from then on. Empty: calls need none.
  void set_tokens(const std::vector<py::bytes>& digests) {
    std::vector<transport::Tokens::Digest> found;
    for (const std::string_view digest : digests) {
      if (digest.size() != sizeof(transport::Tokens::Digest)) throw py::value_error("a digest has 32 bytes");
      std::memcpy(found.emplace_back().data(), digest.data(), digest.size());
    }
    loop_->set_tokens(found.empty() ? nullptr : std::make_shared<transport::Tokens>(std::move(found), ++token_sets_));
  }

  void add_rare_method(const std::string& path, bool unary, bool texts, u16 number) {
    if (!loop_->grpc.rare.add(loop_->grpc.methods, path,
                              unary ? transport::MethodKind::kUnary : transport::MethodKind::kBidi, role_of(texts),
                              number))
      throw py::value_error("the method " + path + " exists already, is not /service/method, or is one too many");
  }

  static transport::MethodRole role_of(bool texts) {
    return texts ? transport::MethodRole::kText : transport::MethodRole::kControl;
  }

  // protocol: in whose form errors are; "": {"error": "MESSAGE"}.
  void add_rare_route(const std::string& verb, const std::string& pattern, const std::string& protocol, bool texts,
                      u16 number) {
    if (!loop_->grpc.rare.add(loop_->grpc.routes, transport::verb_of(verb), pattern, protocols::errors_of(protocol),
                              role_of(texts), number))
      throw py::value_error("the route " + verb + " " + pattern + " exists already, or has too many parameters");
  }

  void add_page(const std::string& path, const std::string& html) {
    auto& page = pages_.emplace_back(loop_->grpc.transport, html);
    if (!loop_->grpc.routes.add({transport::HttpVerb::kGet, path, &page, transport::MethodRole::kProbe}))
      throw py::value_error("the route GET " + path + " exists already");
  }

  // Verb and pattern of each.
  std::vector<std::pair<std::string, std::string>> http_routes() const {
    std::vector<std::pair<std::string, std::string>> found;
    for (const transport::HttpRow& row : loop_->grpc.routes.rows())
      found.emplace_back(transport::name_of(row.verb), row.pattern);
    return found;
  }

  u32 run() {
    py::gil_scoped_release nogil;
    add_platform_routes(loop_->grpc.routes);
    loop_->run();
    service_.tokenize_queue().close();
    loop_->grpc.rare.queue().close();
    return service_.cut_off();
  }
  void stop() { loop_->stop(); }

  using RareId = std::pair<u32, u32>;
  using RareHttp = std::pair<py::str, std::vector<py::str>>;  // query and parameters
  // (call, method, event, message, half closed, of plain HTTP)
  using Rare = std::tuple<RareId, u16, int, py::bytes, bool, std::optional<RareHttp>>;
  std::optional<Rare> next_rare(int timeout_ms) {
    std::optional<transport::RareCall> call;
    {
      py::gil_scoped_release nogil;
      call = loop_->grpc.rare.queue().pop(timeout_ms);
    }
    if (!call) return std::nullopt;
    std::optional<RareHttp> http;
    if (call->http) {
      http.emplace(text_of(call->http->query), std::vector<py::str>());
      for (const std::string& parameter : call->http->parameters) http->second.push_back(text_of(parameter));
    }
    return Rare{RareId{call->call.index, call->call.generation},
                call->method,
                int(call->event),
                py::bytes(call->message),
                call->half_closed,
                std::move(http)};
  }
  void answer_rare(RareId call, std::optional<py::bytes> message, bool last, int code, const std::string& status) {
    loop_->grpc.rare.queue().answer({{call.first, call.second}, std::move(message), last, StatusCode(code), status});
  }
  void answer_rare_route(RareId call, const py::bytes& body, u16 status, const std::string& content_type) {
    transport::HttpReply reply{.status = status};
    if (!transport::find_content_type(content_type, &reply.type))
      throw py::value_error("no content type " + content_type);
    loop_->grpc.rare.queue().answer({{call.first, call.second}, std::string(body), true, StatusCode::kOk, {}, reply});
  }

  // (slot, route, connection, tokens_max, cut, first, second, chat)
  using CutName = py::typing::Literal<"'counted'", "'longest'", "'first'">;
  // (messages as role and content, mode, variables as JSON)
  using Chat = std::tuple<std::vector<std::pair<std::string, std::string>>, std::string, std::string>;
  using TextJob = std::tuple<u32, u32, u64, u32, CutName, std::string, std::optional<std::string>, std::optional<Chat>>;
  std::vector<TextJob> next_texts(bool long_ones, size_t most, int timeout_ms) {
    std::vector<service::TokenizeJob> jobs;
    {
      py::gil_scoped_release nogil;
      jobs = service_.tokenize_queue().pop(most, timeout_ms,
                                           long_ones ? service::TextLane::kLong : service::TextLane::kUsual);
    }
    std::vector<TextJob> out;
    for (auto& job : jobs)
      out.emplace_back(job.slot, job.route, u64(job.from.generation) << 32 | job.from.index, job.tokens_max,
                       one_of<CutName>(text::name_of(job.cut)), std::move(job.first),
                       job.pair ? std::optional(std::move(job.second)) : std::nullopt, chat_of(job));
    return out;
  }
  // A text as next_texts() gave it waits again, among the long ones.
  void defer_text(u32 slot, u32 route, u64 connection, u32 tokens_max, const std::string& cut, std::string first,
                  std::optional<std::string> second, std::optional<Chat> chat) {
    service::TokenizeJob job{slot, route, second.has_value(), std::move(first), second.value_or("")};
    if (chat) {
      const auto mode = std::ranges::find(kChatModes, std::get<1>(*chat)) - std::begin(kChatModes);
      if (size_t(mode) == std::size(kChatModes)) throw py::value_error("mode");
      job.chat.emplace(service::ChatJob{std::move(std::get<0>(*chat)), ChatMode(mode), std::move(std::get<2>(*chat))});
    }
    job.tokens_max = tokens_max;
    job.cut = text::cut_named(cut).value();
    job.from = {u32(connection), u32(connection >> 32)};
    service_.tokenize_queue().defer(std::move(job));
  }
  bool text_dropped(u32 slot) { return service_.tokenize_queue().dropped(slot); }
  // results: (slot, ids as native u32, TokenSpans of a token classifier, first_len, n_total, ""), or
  // (slot, b"", b"", 0, 0, why there are none).
  void texts_done(const std::vector<std::tuple<u32, py::bytes, py::bytes, u32, u32, std::string>>& results) {
    std::vector<service::TokenizeResult> out;
    out.reserve(results.size());
    for (auto& [slot, ids, spans, first_len, n_total, failure] : results) {
      out.push_back({slot, values<u32>(ids), first_len, n_total, failure});
      out.back().spans = values<text::TokenSpan>(spans);
    }
    service_.tokenize_queue().done(std::move(out));
  }
  void count_tokenizer_restart() { service_.count_tokenizer_restart(); }
  void set_tokenizer_pid(u32 which, u32 pid) {
    if (which >= kTokenizerProcesses) throw py::index_error();
    service_.set_tokenizer_pid(which, pid);
  }

 private:
  static std::optional<Chat> chat_of(service::TokenizeJob& job) {
    if (!job.chat) return std::nullopt;
    return Chat{std::move(job.chat->messages), std::string(kChatModes[u8(job.chat->mode)]),
                std::move(job.chat->variables)};
  }
  template <class T>
  static std::vector<T> values(std::string_view bytes) {
    std::vector<T> out(bytes.size() / sizeof(T));
    if (!out.empty()) std::memcpy(out.data(), bytes.data(), out.size() * sizeof(T));
    return out;
  }
  static constexpr int kTakenMs = 1000;  // a loop that does not turn for so long frees at its next chance

  // After all others: a path that is served already keeps its meaning.
  void add_platform_routes(transport::HttpRoutes& routes) const {
    if (!settings_.predict_route.empty())
      routes.alias(transport::HttpVerb::kPost, settings_.predict_route, protocols::kVertexPath);
    if (!settings_.health_route.empty())
      routes.alias(transport::HttpVerb::kGet, settings_.health_route, transport::kHealthPath);
  }

  static transport::TraceSource trace_source(const Segment& segment, u32 index, const DoorSettings& settings) {
    const auto share = [](double ratio) { return ratio >= 1 ? ~u64(0) : u64(std::ldexp(ratio, 64)); };
    const bool spans = settings.trace_ratio.has_value(), lines = settings.access_log > 0;
    return {.ring = spans || lines ? &segment.trace_ring(index) : nullptr,
            .threshold = share(settings.trace_ratio.value_or(0)),
            .forwards = !spans && segment.sizes().upstreams > 0,
            .spans = spans,
            .line_threshold = share(settings.access_log)};
  }

  const DoorSettings settings_;
  Segment segment_;
  WakeFds fds_;
  transport::Counters counters_;
  service::PredictService service_;
  protocols::Methods methods_;
  std::deque<transport::Page> pages_;
  std::unique_ptr<transport::FrontDoor> loop_;
  u64 token_sets_ = 0;
};

std::unique_ptr<Door> make_door(const SegmentHandle& segment, const WakeFds& wake_fds, u32 index,
                                const std::string& json) {
  DoorSettings settings;
  if (const std::string wrong = read_settings(json, settings); !wrong.empty())
    throw py::value_error("settings of a front door: " + wrong);
  if (index >= segment.segment.sizes().doors) throw py::index_error();
  return std::make_unique<Door>(segment, wake_fds, index, settings);
}

// When the certificate expires, in seconds since 1970, of PEM texts that a door could serve with.
i64 check_tls(const py::bytes& certificate, const py::bytes& key, const py::bytes& client_ca) {
  transport::TlsFault fault;
  const auto made =
      transport::TlsContext::make({certificate, key, client_ca}, transport::TlsContext::Dates::kChecked, &fault);
  if (made) return made->expires_s();
  static constexpr const char* kParts[] = {"certificate", "key", "client_ca"};
  PyErr_SetObject(tls_error, py::make_tuple(kParts[fault.part], fault.text).ptr());
  throw py::error_already_set();
}

}  // namespace
}  // namespace fastqps::bind

PYBIND11_MODULE(_front, m) {
  fastqps::bind::check_identity("_front");
  py::module_::import("fastqps._core");  // Segment and WakeFds
  using fastqps::u32, fastqps::u64;
  using fastqps::bind::Door;
  m.doc() = "The native front door of fastqps.";
  py::class_<Door>(m, "Door")
      .def(py::init(&fastqps::bind::make_door), "segment"_a, "wake_fds"_a, "index"_a, "settings"_a,
           "settings: JSON of what csrc/contract/settings.h lists, DoorSettings.native.")
      .def_property_readonly("max_request_items", [](const Door& door) { return door.settings().max_request_items; })
      .def_property_readonly("auto_truncate", [](const Door& door) { return door.settings().auto_truncate; })
      .def_property_readonly("predict_route", [](const Door& door) { return door.settings().predict_route; })
      .def_property_readonly("health_route", [](const Door& door) { return door.settings().health_route; })
      .def_property_readonly("aliases", [](const Door& door) { return door.settings().aliases; })
      .def("number_of", &Door::number_of, "model"_a, "The number of the model that has this name; -1: none.")
      .def("drop_route", &Door::drop_route, "route"_a)
      .def("set_route", &Door::set_route, "route"_a, "generation"_a, "card"_a, py::kw_only(), "tokenizer"_a,
           "special_tokens"_a, "external"_a, "detokenizer"_a, "specials"_a, "card: ModelCard.to_json().")
      .def("set_tls", &Door::set_tls, "certificate"_a, "key"_a, "client_ca"_a)
      .def("set_tokens", &Door::set_tokens, "digests"_a)
      .def("run", &Door::run, "Serves until stop(), or until a drain has ended; the number of items that this cut off.")
      .def("stop", &Door::stop)
      .def("add_rare_method", &Door::add_rare_method, "path"_a, "unary"_a, "texts"_a, "number"_a,
           "Before run(): next_rare() returns the calls of this method, under its number. texts: its messages have the "
           "limit of texts to tokenize.")
      .def("add_rare_route", &Door::add_rare_route, "verb"_a, "pattern"_a, "protocol"_a, "texts"_a, "number"_a,
           "The same of a route of plain HTTP.")
      .def("add_page", &Door::add_page, "path"_a, "html"_a,
           "Before run(): a page for everyone, with or without a token.")
      .def("http_routes", &Door::http_routes, "Verb and pattern of each route of plain HTTP.")
      .def("answer_rare_route", &Door::answer_rare_route, "call"_a, "body"_a, "status"_a, "content_type"_a)
      .def("next_rare", &Door::next_rare, "timeout_ms"_a)
      .def("answer_rare", &Door::answer_rare, "call"_a, "message"_a, "last"_a, "code"_a = 0, "status"_a = "")
      .def("next_texts", &Door::next_texts, "long_ones"_a, "most"_a, "timeout_ms"_a)
      .def("defer_text", &Door::defer_text, "slot"_a, "route"_a, "connection"_a, "tokens_max"_a, "cut"_a, "first"_a,
           "second"_a, "chat"_a)
      .def("text_dropped", &Door::text_dropped, "slot"_a)
      .def("texts_done", &Door::texts_done, "results"_a)
      .def("count_tokenizer_restart", &Door::count_tokenizer_restart)
      .def("set_tokenizer_pid", &Door::set_tokenizer_pid, "which"_a, "pid"_a);
  fastqps::bind::tls_error = PyErr_NewException("fastqps._front.TlsError", PyExc_ValueError, nullptr);
  m.attr("TlsError") = py::handle(fastqps::bind::tls_error);
  m.def(
      "trim_memory",
      [] {
        const py::gil_scoped_release nogil;
        malloc_trim(0);
      },
      "Gives the system back what loading has left free, tens of MiB where a tokenizer was large. Milliseconds.");
  m.def(
      "check_tls", &fastqps::bind::check_tls, "certificate"_a, "key"_a, "client_ca"_a,
      "When the certificate expires, in seconds since 1970. TlsError where no door could serve with these PEM texts.");
  py::list outputs;
  for (const fastqps::TaskTraits& task : fastqps::kTasks)
    for (const fastqps::protocols::OutputRow& row : fastqps::protocols::rows_of(task.output))
      if (!(row.bit & fastqps::protocols::kOutByOption))
        outputs.append(py::make_tuple(task.name, py::str(row.name), py::str(row.datatype)));
  using Row = py::typing::Tuple<py::str, py::str, py::str>;  // task, name and datatype
  m.attr_with_type_hint<py::typing::Tuple<Row, py::ellipsis>>("INFER_OUTPUTS") = py::tuple(outputs);
  fastqps::bind::register_chat(m);
  fastqps::bind::register_edge(m);
}

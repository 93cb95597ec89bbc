// Models and their routes, as the supervisor sets them.
#include <pybind11/stl.h>

#include "bind/segment.h"
#include "core/ring.h"
#include "core/waiting.h"

namespace py = pybind11;
using namespace py::literals;

namespace fastqps::bind {
namespace {

void copy_name(char* to, size_t room, const std::string& from, const char* what) {
  if (from.size() >= room)
    throw py::value_error(std::string(what) + " is longer than " + std::to_string(room - 1) + " bytes");
  std::memset(to, 0, room);
  std::memcpy(to, from.data(), from.size());
}

// The waiting items of each class of a route, as (items, since when).
std::vector<std::pair<u64, u64>> waiting(const SegmentHandle& self, u32 route) {
  const Segment& g = self.segment;
  checked(g, route, g.sizes().routes());
  std::vector<std::pair<u64, u64>> out;
  for (const Waiting::OfClass& of : waiting_of(g, route).of) out.emplace_back(of.items, of.oldest_ns);
  return out;
}

// Requests that wait in the suspects' rings of a route.
u64 suspects_waiting(const Segment& g, u32 route) {
  u64 n = 0;
  for (u32 f = 0; f < g.sizes().doors; f++) n += ring_waiting(g.request_ring(f, route, kSuspect), g.ring_entries());
  return n;
}

const TaskTraits& task_of(const std::string& name) {
  for (const TaskTraits& task : kTasks)
    if (name == task.name) return task;
  throw py::value_error("task: unknown value '" + name + "'");
}

// card_json: of a ModelCard of fastqps/models.
void set_route(const SegmentHandle& self, u32 i, u32 generation, const std::string& card_json, u32 max_queue_items,
               u32 max_batch_items, u32 max_batch_tokens, u64 max_batch_delay_ns, u32 cache_slots) {
  const Segment& g = self.segment;
  Route& r = checked(g, i, g.sizes().routes()).route(i);
  const ModelCard card = read_model_card(card_json);
  if (card.max_input_tokens > g.sizes().max_tokens) throw py::value_error("max_input_tokens is more than a slot holds");
  const TaskTraits& task = task_of(card.task);
  const u64 answer = answer_bytes(task.task, card.dimensions, card.max_input_tokens, card.max_output_tokens);
  if (answer > std::max(g.sizes().answer_bytes, task.by_token ? g.sizes().large_answer_bytes : 0))
    throw py::value_error("answers of this width do not fit into a slot");
  if (card_json.size() > kCardBytes) throw py::value_error("the model's card is larger than 256 KiB");
  r.generation = generation;
  r.task = task.task;
  r.activation = choice<Activation>(
      card.activation,
      {{"identity", Activation::kIdentity}, {"softmax", Activation::kSoftmax}, {"sigmoid", Activation::kSigmoid}},
      "activation");
  r.normalize = card.normalize;
  r.dimensions = card.dimensions;
  r.vocab_size = card.vocab_size;
  r.max_input_tokens = card.max_input_tokens;
  r.max_queue_items = max_queue_items;
  r.most_items.store(max_batch_items, kRelaxed);  // who reads it has seen the route's state
  r.max_batch_items.store(max_batch_items, kRelaxed);
  r.lanes.store(0, kRelaxed), r.sync_steps.store(0, kRelaxed);
  r.max_batch_tokens.store(max_batch_tokens, kRelaxed);
  r.max_batch_delay_ns = max_batch_delay_ns;
  r.pair_type_id = card.second_segment_type;
  r.position_offset = card.position_offset;
  r.max_output_tokens = card.max_output_tokens;
  r.prefix_tokens = u32(card.prefix_ids.size());
  r.opening_tokens = u32(card.opening_ids.size());
  r.cache_slots.store(cache_slots, kRelaxed);
  copy_name(r.version, sizeof r.version, card.version, "version");
  std::memcpy(g.card(i), card_json.data(), card_json.size());
  r.card_bytes = u32(card_json.size());
}

// The generation that serves a model now.
struct ModelView {
  std::string name;
  u32 serving;
  bool ready;
};

ModelView model(const SegmentHandle& self, u32 i) {
  const Model& found = checked(self.segment, i, self.segment.sizes().models).model(i);
  return {found.name, found.serving.load(), found.ready.load() != 0};
}

struct RouteView {
  const char* state;
  u64 dispatchers;  // one bit each
  u32 generation, dimensions, max_input_tokens, max_queue_items, most_items, max_batch_items, max_batch_tokens;
  u64 max_batch_delay_ns;
  u32 max_output_tokens, prefix_tokens, cache_slots, lanes;
  bool async_steps;
  std::string version;
};

RouteView route(const SegmentHandle& self, u32 i) {
  const Segment& g = self.segment;
  const Route& r = checked(g, i, g.sizes().routes()).route(i);
  static constexpr const char* kStates[] = {"empty", "warming", "serving", "draining"};
  return {.state = kStates[u32(r.state.load())],
          .dispatchers = r.dispatchers.load(),
          .generation = r.generation,
          .dimensions = r.dimensions,
          .max_input_tokens = r.max_input_tokens,
          .max_queue_items = r.max_queue_items,
          .most_items = r.most_items.load(kAcquire),  // pairs with set_batch_limits
          .max_batch_items = r.max_batch_items.load(kRelaxed),
          .max_batch_tokens = r.max_batch_tokens.load(kRelaxed),
          .max_batch_delay_ns = r.max_batch_delay_ns,
          .max_output_tokens = r.max_output_tokens,
          .prefix_tokens = r.prefix_tokens,
          .cache_slots = r.cache_slots.load(kRelaxed),
          .lanes = r.lanes.load(kRelaxed),
          .async_steps = !r.sync_steps.load(kRelaxed),
          .version = r.version};
}

}  // namespace

using StepsName = py::typing::Literal<"'encode'", "'decode'">;
using FormName = py::typing::Literal<"'vector'", "'labels'", "'sparse'", "'tokens'">;

void register_models(py::module_& m) {
  py::class_<TaskTraits>(m, "TaskTraits", "What there is to ask of a task; a row of csrc/contract/task.h.")
      .def_readonly("name", &TaskTraits::name)
      .def_readonly("does", &TaskTraits::does, "Of a model, in messages: 'minilm' embeds texts.")
      .def_readonly("by_token", &TaskTraits::by_token, "An output row for each token, not one for each item.")
      .def_readonly("spans", &TaskTraits::spans, "Answers name places in a text.")
      .def_property_readonly(
          "number", [](const TaskTraits& task) { return u32(task.task) + 1; }, "Of fastqps.v1.Task.")
      .def_property_readonly("steps",
                             [](const TaskTraits& task) { return one_of<StepsName>(kStepKindNames[u32(task.steps)]); })
      .def_property_readonly("form",
                             [](const TaskTraits& task) { return one_of<FormName>(kAnswerFormNames[u32(task.form)]); })
      .def_property_readonly(
          "takes_pairs", [](const TaskTraits& task) { return !task.one_text; }, "An item may be a pair of texts.");
  py::typing::Dict<py::str, TaskTraits> tasks;
  for (const TaskTraits& task : kTasks) tasks[task.name] = task;
  m.attr_with_type_hint<decltype(tasks)>("TASKS") = tasks;
  m.def(
      "answer_bytes",
      [](const TaskTraits& task, u32 dimensions, u32 max_input_tokens, u32 max_output_tokens) {
        return answer_bytes(task.task, dimensions, max_input_tokens, max_output_tokens);
      },
      "task"_a, py::kw_only(), "dimensions"_a, "max_input_tokens"_a, "max_output_tokens"_a,
      "The size of a model's longest answer in a slot; of a generator, without anything of the prompt.");
  m.def("largest_generation_bytes", &largest_generation_bytes, py::kw_only(), "max_input_tokens"_a,
        "max_output_tokens"_a, "The same of a generator, for a request that asks for all that there is.");
  py::class_<ModelView>(m, "ModelView", "A model at one moment; `serving` is one of its GENERATIONS places.")
      .def_readonly("name", &ModelView::name)
      .def_readonly("serving", &ModelView::serving)
      .def_readonly("ready", &ModelView::ready);
  py::class_<RouteView>(m, "RouteView", "One generation of a model at one moment.")
      .def_readonly("state", &RouteView::state, "empty, warming, serving or draining.")
      .def_readonly("dispatchers", &RouteView::dispatchers, "One bit each.")
      .def_readonly("generation", &RouteView::generation)
      .def_readonly("dimensions", &RouteView::dimensions)
      .def_readonly("max_input_tokens", &RouteView::max_input_tokens)
      .def_readonly("max_queue_items", &RouteView::max_queue_items)
      .def_readonly("most_items", &RouteView::most_items)
      .def_readonly("max_batch_items", &RouteView::max_batch_items)
      .def_readonly("max_batch_tokens", &RouteView::max_batch_tokens)
      .def_readonly("max_batch_delay_ns", &RouteView::max_batch_delay_ns)
      .def_readonly("max_output_tokens", &RouteView::max_output_tokens)
      .def_readonly("prefix_tokens", &RouteView::prefix_tokens)
      .def_readonly("cache_slots", &RouteView::cache_slots)
      .def_readonly("lanes", &RouteView::lanes, "0: all.")
      .def_readonly("async_steps", &RouteView::async_steps)
      .def_readonly("version", &RouteView::version);
}

void define_models(SegmentClass& segment) {
  segment
      .def(
          "set_model",
          [](const SegmentHandle& s, u32 i, const std::string& name) {
            copy_name(checked(s.segment, i, s.segment.sizes().models).model(i).name, kNameBytes, name, "model name");
          },
          "i"_a, "name"_a)
      .def("model", &model, "i"_a)
      .def("set_route", &set_route, "i"_a, "generation"_a, "card"_a, py::kw_only(), "max_queue_items"_a,
           "max_batch_items"_a, "max_batch_tokens"_a, "max_batch_delay_ns"_a, "cache_slots"_a,
           "card: ModelCard.to_json().")
      .def("route", &route, "i"_a)
      .def(
          "set_batch_limits",
          [](const SegmentHandle& s, u32 i, u32 items, u32 tokens, u32 cache_slots) {
            Route& r = checked(s.segment, i, s.segment.sizes().routes()).route(i);
            r.cache_slots.store(cache_slots, kRelaxed);  // statistics; the dispatchers agree on the others by a lock
            r.max_batch_tokens.store(tokens, kRelaxed);
            r.max_batch_items.store(items, kRelaxed);
            r.most_items.store(items, kRelease);  // from here on the supervisor may lower what stands above
          },
          "i"_a, py::kw_only(), "items"_a, "tokens"_a, "cache_slots"_a, "What the route's dispatchers chose.")
      .def(
          "set_limits",
          [](const SegmentHandle& s, u32 i, u32 items, u32 lanes, bool async_steps) {
            Route& r = checked(s.segment, i, s.segment.sizes().routes()).route(i);
            r.max_batch_items.store(items, kRelaxed);
            r.cache_slots.store(generates(r.task) ? items * lanes : 0, kRelaxed);
            r.lanes.store(lanes, kRelaxed);
            r.sync_steps.store(!async_steps, kRelaxed);
          },
          "i"_a, py::kw_only(), "items"_a, "lanes"_a, "async_steps"_a,
          "What the route's dispatchers use from their next step on, within what they are made for.")
      .def(
          "card",
          [](const SegmentHandle& s, u32 i) {
            return std::string(checked(s.segment, i, s.segment.sizes().routes()).card(i),
                               s.segment.route(i).card_bytes);
          },
          "i"_a)
      .def(
          "set_route_state",
          [](const SegmentHandle& s, u32 i, const std::string& state) {
            checked(s.segment, i, s.segment.sizes().routes())
                .route(i)
                .state.store(choice<RouteState>(state,
                                                {{"empty", RouteState::kEmpty},
                                                 {"warming", RouteState::kWarming},
                                                 {"serving", RouteState::kServing},
                                                 {"draining", RouteState::kDraining}},
                                                "route state"),
                             kRelease);
          },
          "i"_a, "state"_a)
      .def(
          "set_route_dispatchers",
          [](const SegmentHandle& s, u32 i, u64 mask) {
            checked(s.segment, i, s.segment.sizes().routes()).route(i).dispatchers.store(mask, kSeqCst);
          },
          "i"_a, "mask"_a)
      .def(
          "serve",
          [](const SegmentHandle& s, u32 model, u32 generation) {
            Model& m = checked(s.segment, model, s.segment.sizes().models).model(model);
            m.serving.store(generation % kGenerations, kRelease);
            m.ready.store(1, kRelease);
          },
          "model"_a, "generation"_a)
      .def(
          "flip",
          [](const SegmentHandle& s, u32 model, u32 generation) {
            const Segment& g = s.segment;
            Model& m = checked(g, model, g.sizes().models).model(model);
            const u32 now = generation % kGenerations, before = (now + 1) % kGenerations;
            g.route(model * kGenerations + now).state.store(RouteState::kServing, kRelease);
            g.route(model * kGenerations + before).state.store(RouteState::kDraining, kRelease);
            m.serving.store(now, kRelease);
            return g.supervisor().flips.fetch_add(1, kAcqRel) + 1;
          },
          "model"_a, "generation"_a,
          "Has another generation of a model serve, that all front doors have loaded; what `flips_seen` will be.")
      .def(
          "door_route",
          [](const SegmentHandle& s, u32 i, u32 route) {
            const Segment& g = s.segment;
            checked(g, i, g.sizes().doors), checked(g, route, g.sizes().routes());
            const DoorRoute& d = g.door_route(i, route);
            return py::make_tuple(i64(d.loaded.load(kAcquire)) - 1, i64(d.refused.load(kAcquire)) - 1, d.held.load());
          },
          "door"_a, "route"_a, "(generation loaded, generation refused, items held); -1: none.")
      .def(
          "refuse_route",
          [](const SegmentHandle& s, u32 i, u32 route, u32 generation) {
            const Segment& g = s.segment;
            checked(g, i, g.sizes().doors), checked(g, route, g.sizes().routes());
            g.door_route(i, route).refused.store(generation + 1, kRelease);
          },
          "door"_a, "route"_a, "generation"_a)
      .def("waiting", &waiting, "route"_a, "By class: (items that wait, when the oldest of them was queued or 0).")
      .def(
          "suspects_waiting", [](const SegmentHandle& s, u32 route) { return suspects_waiting(s.segment, route); },
          "route"_a);
}

}  // namespace fastqps::bind

// The tasks of models: one row each, of what the code asks of a task. A new one is a row here, and code for what is new
// in its answers. Python has the rows as `_core.TASKS`.
#pragma once
#include "contract/types.h"

namespace fastqps {

// The row of kTasks. fastqps.v1.Task is 1 more.
enum class Task : u32 {
  kEmbed = 0,
  kClassify = 1,
  kGenerate = 2,
  kClassifyTokens = 3,
  kEmbedSparse = 4,
  kEmbedMulti = 5
};

// An encoder's step answers all of its items, a decoder's makes one token of each.
enum class StepKind : u8 { kEncode, kDecode };
inline constexpr const char* kStepKindNames[] = {"encode", "decode"};

// What an answer is made of: the numbers of a vector, scores of labels, weights of token ids, or generated tokens.
enum class AnswerForm : u8 { kVector, kLabels, kSparse, kTokens };
inline constexpr const char* kAnswerFormNames[] = {"vector", "labels", "sparse", "tokens"};

// The field of a response that holds an answer. kSlot: of an edge's item. kText: a generation of which only the text is
// sent; only what a protocol is for (RequestReader::wants()).
enum class Output : u8 { kNone, kEmbedding, kClassification, kGeneration, kEntities, kSparse, kMulti, kSlot, kText };

// Options of the output that a task takes or, where they mean nothing to it, ignores. It refuses the others.
enum OutputOption : u8 {
  kVectorOptions = 1,  // dtype, dimensions, normalize
  kLabelOptions = 2,   // top_labels, raw_scores
  kAggregationOption = 4,
  kActiveDimsOption = 8
};

struct TaskTraits {
  Task task;
  const char* name;  // in cards; that of fastqps.v1.Task in lower case
  const char* does;  // of a model, in messages: "'minilm' embeds texts"
  StepKind steps;
  AnswerForm form;
  bool by_token = false;  // a device puts out a row for each token of a request, not one for the whole
  bool spans = false;     // an answer names places in the request's text, which token ids do not have
  Output output;
  u8 options;                      // OutputOption
  const char* one_text = nullptr;  // why a pair of texts is refused: "the model 'x', which …"; null: it is not
};

inline constexpr TaskTraits kTasks[] = {
    {.task = Task::kEmbed,
     .name = "embed",
     .does = "embeds texts",
     .steps = StepKind::kEncode,
     .form = AnswerForm::kVector,
     .output = Output::kEmbedding,
     .options = kVectorOptions | kLabelOptions},
    {.task = Task::kClassify,
     .name = "classify",
     .does = "classifies texts",
     .steps = StepKind::kEncode,
     .form = AnswerForm::kLabels,
     .output = Output::kClassification,
     .options = kVectorOptions | kLabelOptions},
    {.task = Task::kGenerate,
     .name = "generate",
     .does = "generates text",
     .steps = StepKind::kDecode,
     .form = AnswerForm::kTokens,
     .output = Output::kGeneration,
     .options = 0,
     .one_text = "generates"},
    {.task = Task::kClassifyTokens,
     .name = "classify_tokens",
     .does = "finds entities",
     .steps = StepKind::kEncode,
     .form = AnswerForm::kLabels,
     .by_token = true,
     .spans = true,
     .output = Output::kEntities,
     .options = kAggregationOption,
     .one_text = "finds entities in a text"},
    {.task = Task::kEmbedSparse,
     .name = "embed_sparse",
     .does = "gives sparse embeddings",
     .steps = StepKind::kEncode,
     .form = AnswerForm::kSparse,
     .output = Output::kSparse,
     .options = kActiveDimsOption},
    {.task = Task::kEmbedMulti,
     .name = "embed_multi",
     .does = "makes a vector of each token",
     .steps = StepKind::kEncode,
     .form = AnswerForm::kVector,
     .by_token = true,
     .output = Output::kMulti,
     .options = kVectorOptions,
     .one_text = "makes a vector of each token"},
};

constexpr const TaskTraits& traits(Task task) { return kTasks[u32(task)]; }

// Whether an answer is generated token by token, whatever its steps are.
constexpr bool generates(Task task) { return traits(task).form == AnswerForm::kTokens; }

consteval bool rows_are_in_order() {
  u32 row = 0;
  for (const TaskTraits& each : kTasks)
    if (u32(each.task) != row++) return false;
  return true;
}
static_assert(rows_are_in_order());

}  // namespace fastqps

// The names of fields in each protocol, against a literal table.
#include "service/formats/protocol.h"
#include "tests/check.h"

using namespace fastqps;
using namespace fastqps::test;

namespace {

TEST(every_protocol_has_its_own_names) {
  constexpr const FieldNames* kProtocols[] = {&kInferFields,      &kEmbeddingsFields, &kCompletionsFields,
                                              &kTeiFields,        &kTeiRankFields,    &kRerankFields,
                                              &kEmbedTextsFields, &kPoolingFields,    &kScoreFields};
  const struct {
    std::string_view field, theirs[9];
  } cases[] = {
      {"text", {"text", "input", "prompt", "inputs", "texts", "documents", "texts", "input", "data"}},
      {"token_ids", {"input_ids", "input", "prompt", "inputs", "texts", "documents", "texts", "input", "data"}},
      {"pair", {"text_pair", "input", "prompt", "inputs", "texts", "documents", "texts", "input", "data"}},
      {"pair.first", {"text", "input", "prompt", "inputs", "query", "query", "texts", "input", "queries"}},
      {"pair.second", {"text_pair", "input", "prompt", "inputs", "texts", "documents", "texts", "input", "documents"}},
      {"input", {"inputs", "input", "prompt", "inputs", "texts", "documents", "texts", "input", "data"}},
      {"model", {"model_name", "model", "model", "model", "model", "model", "model", "model", "model"}},
      {"output.dtype",
       {"datatype", "output_dtype", "output_dtype", "output_dtype", "dtype", "dtype", "output_dtype", "output_dtype",
        "output_dtype"}},
      {"generate",
       {"parameters", "generate", "generate", "generate", "generate", "generate", "generate", "generate", "generate"}},
      {"output.dimensions",
       {"dimensions", "dimensions", "dimensions", "dimensions", "dimensions", "dimensions", "output_dimension",
        "dimensions", "dimensions"}},
      {"generate.stop", {"stop", "stop", "stop", "stop", "stop", "stop", "stop", "stop", "stop"}},
      {"truncate",
       {"truncate", "truncate", "truncate", "truncate", "truncate", "truncate", "truncate", "truncate", "truncate"}},
      {"truncation_direction",
       {"truncation_direction", "truncation_direction", "truncation_direction", "truncation_direction",
        "truncation_direction", "truncation_direction", "truncate", "truncation_side", "truncation_side"}},
      {"", {"", "", "", "", "", "", "", "", ""}},
  };
  for (const auto& each : cases)
    for (size_t i = 0; i < std::size(kProtocols); i++) {
      CHECK_EQ(kProtocols[i]->of(each.field), each.theirs[i]);
      CHECK_EQ(kProtocols[i]->of(each.theirs[i]), each.theirs[i]);  // a protocol's own name stays
    }
}

}  // namespace

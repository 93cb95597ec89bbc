#include "service/formats/candidates.h"

#include <vector>

#include "contract/context_head.h"

namespace fastqps::service {
namespace {

// The first candidate's answer, with the choices of all. Its tokens are those of all candidates. choices, usage: what
// it refers to.
ResponseView joined(const AnsweredCall& call, std::span<const ResponseView> items, std::vector<GenerationView>& choices,
                    Usage& usage) {
  ResponseView response = items[0];
  choose(head_of<BestOf>(call.context), items, choices);
  response.generation = choices[0];
  response.other_choices = std::span(choices).subspan(1);
  if (!response.usage) return response;
  usage = *response.usage;
  usage.output_tokens = 0;
  for (const ResponseView& item : items) usage.output_tokens += item.usage->output_tokens;
  response.usage = &usage;
  return response;
}

}  // namespace

FieldError CandidatesReader::read(std::span<const u8> message, const transport::CallInfo&, ReasonText& reason) {
  const std::string_view bytes(reinterpret_cast<const char*>(message.data()), message.size());
  if (const FieldError error = parse_request(bytes, &request_)) return error;
  choices_ = BestOf::of(request_.generate);
  return check_best_of(request_.generate, 1, items_max_, streams_, reason);
}

std::string_view CandidatesReader::context() const { return bytes_of(choices_); }

size_t CandidatesWriter::room(const AnsweredCall& call, std::span<const ResponseView> items) const {
  std::vector<GenerationView> choices;
  Usage usage;
  return response_size(joined(call, items, choices, usage));
}

u8* CandidatesWriter::write(const AnsweredCall& call, std::span<const ResponseView> items, u8* out) const {
  std::vector<GenerationView> choices;
  Usage usage;
  return write_response(joined(call, items, choices, usage), out);
}

}  // namespace fastqps::service

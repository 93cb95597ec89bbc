// A claimed slot as an item of a StepRequest, and answers as a dispatcher leaves them in a slot.
#pragma once
#include <string_view>

#include "core/claimer.h"
#include "edge/messages/step_message.h"

namespace fastqps::edge {

// Reads the slot's request. Its views lie in the slot and in `generate`.
StepItem read_item(const Segment& segment, const Route& route, u32 number, const Claim& claim, u64 now_ns,
                   StepGenerate& generate);

// The outcome of writing tokens.
enum class Written : u8 {
  kDone,    // the answer is complete
  kPart,    // more follow
  kBroken,  // it is no answer of this model, or does not fit
  kOther,   // a generation that began again has made other tokens than the client has
};

// Whether the answer has the form that an encoder's item asks for, and its bytes are those of that form.
bool row_fits(const Segment& segment, const Route& route, const StepRow& answer, u32 n_tokens, Slot& slot);
// Writes an answer that fits.
void write_row(const Segment& segment, const StepRow& answer, Slot& slot);
// Writes tokens behind the first `before` ones, which the same server has sent.
Written write_tokens(const Segment& segment, const Route& route, const StepRow& answer, u32 before, Slot& slot);

// The times of an answered item, for its client: those that the server says, and what is left of the time since the
// item was sent.
void write_times(const StepRow& answer, u64 claimed_ns, u64 sent_ns, u64 now_ns, Slot& slot);

}  // namespace fastqps::edge

// The front door's slots. What happens to them is announced to SlotEvents (slot_events.h), which every file that calls
// the slab has to include.
#pragma once
#include "core/slab.h"

namespace fastqps::front {

class SlotEvents;
using Slots = Slab<SlotEvents>;

}  // namespace fastqps::front

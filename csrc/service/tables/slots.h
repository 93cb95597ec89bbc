// The front door's slots. The slab reports its events to SlotEvents (slot_events.h), which every file that calls the
// slab must include.
#pragma once
#include "core/slab.h"

namespace fastqps::service {

class SlotEvents;
using Slots = Slab<SlotEvents>;

}  // namespace fastqps::service

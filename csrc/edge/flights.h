// The items that this dispatcher has claimed and not answered. Each has a number, by which servers name it.
#pragma once
#include <deque>
#include <vector>

#include "core/claimer.h"

namespace fastqps::edge {

inline constexpr u32 kNoLink = ~u32(0), kNoUpstream = ~u32(0);

struct Flight {
  Claim claim;
  bool used = false;
  bool orphan = false;          // its slot is back already: nobody waits for the server's answer
  bool launched = false;        // the slot's state
  bool invalid_answer = false;  // a server's answer to it does not fit the model
  u8 strikes = 0;               // servers that went down with it
  u8 sends = 0;
  u32 link = kNoLink;       // that has it
  u32 avoid = kNoUpstream;  // the upstream that did not answer it
  u32 tokens = 0;           // of a generation: those that the link has sent so far
  u64 claimed_ns = 0, sent_ns = 0;
};

// A number rests for a while before it is used again, so that a late answer of a lost connection finds nothing.
class Flights {
 public:
  // slots: of all front doors together, those of canaries included.
  Flights(u32 doors, u32 slots) : slots_(slots), of_slot_(u64(doors) * slots, 0) {}

  // From 1 on.
  u32 open(const Claim& claim, u64 claimed_ns) {
    u32 number;
    if (free_.size() > kRested) {
      number = free_.front();
      free_.pop_front();
    } else {
      number = u32(flights_.size());
      flights_.emplace_back();
    }
    flights_[number] = {.claim = claim, .used = true, .claimed_ns = claimed_ns};
    at(claim.door, claim.slot) = number;
    open_++;
    return number;
  }
  // A second number for an item that was opened: nobody waits for its answer.
  u32 open_copy(const Claim& claim, u64 claimed_ns) {
    const u32 of = of_slot(claim.door, claim.slot), number = open(claim, claimed_ns);
    at(claim.door, claim.slot) = of;
    flights_[number].orphan = true;
    return number;
  }
  void close(u32 number) {
    Flight& flight = flights_[number];
    u32& of = at(flight.claim.door, flight.claim.slot);
    if (of == number) of = 0;
    flight.used = false;
    free_.push_back(number);
    open_--;
  }
  Flight& operator[](u32 number) { return flights_[number]; }
  // nullptr: there is no such item.
  Flight* find(u32 number) {
    return number && number < flights_.size() && flights_[number].used ? &flights_[number] : nullptr;
  }
  // The number of the item in a slot; 0: there is none.
  u32 of_slot(u32 door, u32 slot) {
    return u64(door) * slots_ + slot < of_slot_.size() && slot < slots_ ? at(door, slot) : 0;
  }
  u32 open_items() const { return open_; }
  // Calls each(number) for all items. It may close the one that it is called with.
  template <class Each>
  void for_each(Each each) {
    for (u32 number = 1; number < flights_.size(); number++)
      if (flights_[number].used) each(number);
  }

 private:
  static constexpr u32 kRested = 1024;  // free numbers that stay free

  u32& at(u32 door, u32 slot) { return of_slot_[u64(door) * slots_ + slot]; }

  const u32 slots_;
  std::vector<u32> of_slot_;
  std::vector<Flight> flights_{1};
  std::deque<u32> free_;
  u32 open_ = 0;
};

}  // namespace fastqps::edge

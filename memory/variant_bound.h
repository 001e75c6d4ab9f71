// Lower bounds of the time and bytes of a variant, which no candidate goes below: they prune
// variants that are not worth a search.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/candidates.h"

namespace plimsoll::memory {

class VariantBound {
 public:
  VariantBound() = default;
  VariantBound(const Variant& variant, const KeptUse& keep, const CostModel& cost,
               const SolverOptions& options);

  // Of a plan that keeps everything, but for activations' bytes: what persistent tensors take.
  const Cost& cost() const { return cost_; }
  // The seconds of a plan within so many bytes of the device; infinity: there is none.
  double SecondsWithin(int64_t device_bytes) const;

 private:
  struct Saving {
    double bytes, seconds;  // together with the savings that cost less a byte
  };
  Cost cost_;
  double work_ = 0;              // seconds of a step without what it waits for
  int64_t all_bytes_ = 0;        // persistent, and of activations that are all kept
  std::vector<Saving> savings_;  // the cheapest a byte first
};

}  // namespace plimsoll::memory

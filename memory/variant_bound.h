// Lower bounds of the seconds and bytes of a variant's candidates. With these bounds, the solver
// skips variants that cannot win.
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

  // The seconds of keeping everything, and the bytes of persistent tensors.
  const Cost& cost() const { return cost_; }
  // A lower bound of the seconds of a plan within `device_bytes`; infinity if no plan fits.
  double SecondsWithin(int64_t device_bytes) const;

 private:
  struct Saving {
    double bytes, seconds;  // sums over this saving and all savings that cost fewer seconds per
                            // byte than this one
  };
  Cost cost_;
  double work_ = 0;              // seconds of a step without waits
  int64_t all_bytes_ = 0;        // bytes of persistent tensors and of all activations
  std::vector<Saving> savings_;  // by rising seconds per byte
};

}  // namespace plimsoll::memory

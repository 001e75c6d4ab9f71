// The budget solver: finds the fastest way to run a step within a given number of bytes.
//
// A step has several variants (splits into micro-batches, places of the optimizer's state). In each
// variant, every saved activation can be kept, recomputed or offloaded to the host. The solver
// makes one list of candidates (memory/candidates.h), which does not depend on the budget. So a
// larger budget never gives a slower step than a smaller one.
//
// A budget filters the list: candidates are planned exactly in the order of their predicted time,
// and the first that fits is the answer. A variant's programs are made only if its persistent
// tensors fit. Its candidates are searched only if its lower bounds of time and bytes admit a
// better answer. Neither rule changes the answer. Among equally fast variants the first one wins.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "memory/candidates.h"

namespace plimsoll::memory {

class Solver {
 public:
  Solver(std::vector<Variant> variants, const CostModel& cost, const SolverOptions& options = {});
  ~Solver();

  size_t variants() const;
  const Variant& variant(size_t index);
  // The fewest bytes of persistent tensors that any variant in `among` (see Fastest) has on the
  // device. 0 if there is only one variant.
  int64_t LeastDeviceBytes(const std::vector<bool>& among);

  // The fastest candidate within the budget, planned; nullptr if no candidate fits. `among`: by
  // variant: whether its candidates count; empty means that all count. If no candidate takes fewer
  // seconds than `faster_than`, the search may end early and return any candidate.
  const Candidate* Fastest(const Budget& budget, const std::vector<bool>& among = {},
                           double faster_than = std::numeric_limits<double>::infinity());
  // A lower bound of a step's seconds within the budget; infinity if nothing fits.
  double LeastSeconds(const Budget& budget);

  // The candidate with the fewest bytes on the device within the host's limit, planned. If no
  // candidate is within the host's limit, the candidate with the fewest bytes on the host, within
  // the device's limit if possible. If nothing fits `budget`, it is enough to raise its limits to
  // the needs of this candidate.
  const Candidate& Smallest(const Budget& budget = {});

  // At most `count` candidates from the fastest to the smallest, planned. Each candidate is smaller
  // and slower than the one before. The fastest candidate within each of `budgets` is among them.
  std::vector<const Candidate*> Front(int count, std::span<const int64_t> budgets = {});

  // The candidate for a named policy of a variant, planned; nullptr if the variant has no such
  // policy.
  const Candidate* Policy(size_t variant, const std::string& name);

  // The candidates of a variant, the fastest first by prediction.
  const std::vector<Candidate>& CandidatesOf(size_t variant);
  const ExactPlan& Exact(size_t variant, size_t index);
  // The number of candidates of all variants that were searched so far.
  size_t searched() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::memory

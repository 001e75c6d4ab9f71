// The budget solver: finds the fastest way to run a step within a given number of bytes.
//
// A step can be run in several variants (micro-batch against accumulation, place of the optimizer's
// state), and in each every saved activation can be kept, recomputed or offloaded to the host. The
// solver makes one list of candidates (memory/candidates.h) that is independent of any budget.
//
// A budget then filters the list. Candidates are planned exactly in the order of their predicted
// time, and the first that fits is the answer, so that it is right for the actual arena. As the
// list doesn't depend on the budget, a larger budget never gives a slower step. A variant is
// made only where what stays on the device leaves it a chance, and searched only where a bound of
// its time and bytes does; candidates below the bound are left out, so that this changes no answer.
// Of variants that are equally fast the first one is taken.
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
  // What some of the variants, chosen as for Fastest, take of the device at least: persistent
  // tensors. 0 where there is one variant alone.
  int64_t LeastDeviceBytes(const std::vector<bool>& among);

  // The fastest candidate within the budget, planned; nullptr when none fits. `among`: by variant,
  // whether it may be one of its candidates; empty: of any. Where none is faster than
  // `faster_than`, any answer may come, sooner.
  const Candidate* Fastest(const Budget& budget, const std::vector<bool>& among = {},
                           double faster_than = std::numeric_limits<double>::infinity());
  // The seconds of a step that no candidate within the budget goes below; infinity: none fits.
  double LeastSeconds(const Budget& budget);

  // The candidate that needs least of the device within the host's limit, planned. If there is
  // none, the candidate that needs least of the host, within the device's limit if there is one.
  // So, when nothing fits `budget`, raising one or both limits to this candidate's needs is enough.
  const Candidate& Smallest(const Budget& budget = {});

  // At most `count` candidates from the fastest to the smallest, planned; each is smaller and
  // slower than the one before. The fastest candidate of each of `budgets` is among them.
  std::vector<const Candidate*> Front(int count, std::span<const int64_t> budgets = {});

  // The candidate for a named policy of a variant, planned; nullptr when it has none of that name.
  const Candidate* Policy(size_t variant, const std::string& name);

  // The candidates of a variant, the fastest first by prediction.
  const std::vector<Candidate>& CandidatesOf(size_t variant);
  const ExactPlan& Exact(size_t variant, size_t index);
  // How many candidates there are in the variants that were searched so far.
  size_t searched() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace plimsoll::memory

// Compares the rows of a study: differences from the baseline relative to the measured spread, laws
// that must hold, and curves that rows share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/statistics.h"
#include "studies/results.h"

namespace plimsoll::studies {

// Facts about a row that don't come from its results.
struct RowFacts {
  // Rows with the same text claim the same losses to the bit, for each seed; empty means no claim.
  std::string numbers = "";
  std::string but_for_seed = "";  // rows with the same text differ only in seeds
  bool automatic = false;         // the budget solver chose which activations are saved
};

// The interval of a row's step time. It lies between the quartiles of all steps or those of the
// runs' medians: the pair that is farther apart.
struct Spread {
  double low = 0, median = 0, high = 0;
  // The variation of steps within a run: the range between their quartiles as a share of the
  // median.
  double variation = 0;
};
Spread SpreadOf(const Row& row);  // the row must have results

// Times can be compared if they vary by less than this share. They vary more on a busy machine.
constexpr double kSteady = 0.03;

enum class Difference { kNone, kFaster, kSlower };

// A figure of a run that depends on the run's seed.
using SeedFigure = std::optional<double> (Run::*)() const;

// The mean over the row's seeds. Runs of one seed have the same value. nullopt if no run has a
// value.
std::optional<Mean> OverSeeds(const Row& row, SeedFigure figure);

// Tokens (or samples) per second at the row's median time; nullopt if the row doesn't report its
// tokens.
std::optional<double> TokensPerSecond(const Row& row);

struct Comparison {
  bool is_baseline = false;
  // The row's tokens per second divided by the baseline's. If the row or the baseline doesn't
  // report tokens, this is the ratio of steps per second.
  std::optional<double> speedup;
  bool speedup_by_tokens = false;
  std::optional<Interval> speedups;  // the range of speedups that both spreads allow
  // Whether the row needs less or more time for the same tokens. kNone: the two spreads overlap, so
  // the difference cannot be told.
  Difference time = Difference::kNone;
  // Differences from the baseline, seed by seed. If the baseline lacks seeds, these are the
  // differences of the means.
  std::optional<Mean> loss_difference, eval_loss_difference;
  // The row whose losses this row claims to have, and whether the losses are equal in all steps
  // that both made. -1 means that the row makes no claim.
  int same_as = -1;
  bool same_bits = false;
  int64_t same_steps = 0;  // the number of steps, among `steps`, whose losses were compared
  int64_t steps = 0;
  bool on_front = false;  // no other row needs as little memory and is as fast
};

// `facts` has one element for each row, or is empty. `baseline` is an index into `rows`.
std::vector<Comparison> Compare(const std::vector<Row>& rows, const std::vector<RowFacts>& facts,
                                size_t baseline);

// A law of the program: the number of rows that it was checked on, and the rows that break it.
struct Law {
  std::string name;
  int checked = 0;
  std::vector<std::string> broken = {};  // one sentence for each broken case
  bool must_hold = true;                 // false: the law depends on times, which vary
  // One sentence for each case that varying times leave undecided.
  std::vector<std::string> untold = {};
};

// The laws. The used bytes equal the predicted ones. Losses that are claimed to be equal to the bit
// are equal, and so are those of a row's own runs. No hand-set policy that needs at most as much
// memory as `auto` is faster than `auto`.
std::vector<Law> CheckLaws(const std::vector<Row>& rows, const std::vector<RowFacts>& facts,
                           const std::vector<Comparison>& comparisons);

// Runs whose losses must be equal to the bit share one curve: only one of them trains to the end.
// The others train only long enough to check that their losses are the same.
//
// Returns the number of steps of a run that shares another run's curve: after the warm-up, a
// twentieth of all steps, and at least 20.
int64_t SharedSteps(int64_t warmup, int64_t all_steps);
// Like SharedSteps above, for a run whose curve comes from the run with summary `whole`. If that
// summary has the energy of a step, the result is large enough to measure this run's energy, too.
int64_t SharedSteps(int64_t warmup, int64_t all_steps, const nlohmann::ordered_json& whole);

// Completes the curves of short runs: a run that made fewer steps than the longest run of its claim
// (RowFacts::numbers and seed) gets that run's losses and evaluations. The number of the short
// run's own steps is recorded. A run whose own losses differ keeps them.
void ShareCurves(const std::vector<RowFacts>& facts, size_t baseline, std::vector<Row>& rows);

}  // namespace plimsoll::studies

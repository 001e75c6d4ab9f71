// Compares the rows of a study: differences from the baseline next to the measured spread, the laws
// that must hold, and the curves that rows share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/statistics.h"
#include "studies/results.h"

namespace plimsoll::studies {

// Facts about a row besides its results.
struct RowFacts {
  // Rows with the same text claim the same losses to the bit, seed by seed; empty: no claim.
  std::string numbers = "";
  std::string but_for_seed = "";  // rows with the same text differ only in seeds
  bool automatic = false;         // the budget solver chose what is kept
};

// The interval of a row's step time: the quartiles of all its steps or those of the medians of its
// runs, whichever are farther apart.
struct Spread {
  double low = 0, median = 0, high = 0;
  // The variation of this program's steps: the range between their quartiles as a share of the
  // median.
  double variation = 0;
};
Spread SpreadOf(const Row& row);  // of a row with results

// Times with less variation can be compared. On a busy machine they vary more.
constexpr double kSteady = 0.03;

enum class Difference { kNone, kFaster, kSlower };

// A figure of a run that depends on its seed.
using SeedFigure = std::optional<double> (Run::*)() const;

// The mean over the row's seeds: runs of one seed have the same value. Nothing if no run has one.
std::optional<Mean> OverSeeds(const Row& row, SeedFigure figure);

// Tokens (or samples) a second at the row's median time; nothing where the row doesn't tell its
// tokens.
std::optional<double> TokensPerSecond(const Row& row);

struct Comparison {
  bool is_baseline = false;
  // Tokens a second of the row / those of the baseline or, unless both tell them, steps a second.
  std::optional<double> speedup;
  bool speedup_by_tokens = false;
  std::optional<Interval> speedups;  // what the two spreads leave possible
  // Of the time for the same number of tokens; kNone: the two spreads overlap, nobody can tell.
  Difference time = Difference::kNone;
  // From the baseline, seed by seed. For seeds that the baseline lacks: the difference of the
  // means.
  std::optional<Mean> loss_difference, eval_loss_difference;
  // The row whose losses this row claims to have, and whether it has them in all steps that both
  // made; -1: no claim.
  int same_as = -1;
  bool same_bits = false;
  int64_t same_steps = 0;  // of how many of `steps`
  int64_t steps = 0;
  bool on_front = false;  // no other row is as small and as fast
};

// `facts` are those of the rows, or empty; `baseline` is an index.
std::vector<Comparison> Compare(const std::vector<Row>& rows, const std::vector<RowFacts>& facts,
                                size_t baseline);

// A law of the program: the number of rows in which it was checked, and where it does not hold.
struct Law {
  std::string name;
  int checked = 0;
  std::vector<std::string> broken = {};  // sentences
  bool must_hold = true;                 // false: it depends on times, which vary
  std::vector<std::string> untold = {};  // cases that varying times leave undecided; sentences
};

// The used bytes equal the predicted ones; losses that are claimed to be equal to the bit are
// equal, and so are those of a row's own runs; no hand-set policy within the memory of `auto` is
// faster.
std::vector<Law> CheckLaws(const std::vector<Row>& rows, const std::vector<RowFacts>& facts,
                           const std::vector<Comparison>& comparisons);

// Runs whose losses must be equal to the bit share one curve: only one of them trains to the end,
// the others only train long enough to check that their losses are the same.
//
// The number of steps of a run that shares another's curve: after the warm-up, a twentieth of all
// steps, and at least 20.
int64_t SharedSteps(int64_t warmup, int64_t all_steps);
// The same, but if `whole`, the summary of the run with the whole curve, has the energy of a step:
// long enough to measure this run's energy too.
int64_t SharedSteps(int64_t warmup, int64_t all_steps, const nlohmann::ordered_json& whole);

// Gives each run that made fewer steps than the longest run of its claim (RowFacts::numbers and
// seed) that run's losses and evaluations, and records the number of its own steps. A run whose own
// losses differ keeps them.
void ShareCurves(const std::vector<RowFacts>& facts, size_t baseline, std::vector<Row>& rows);

}  // namespace plimsoll::studies

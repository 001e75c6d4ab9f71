// What the rows of a study say about each other: differences from the baseline beside the measured
// spread, and the laws that must hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/statistics.h"
#include "studies/results.h"

namespace plimsoll::studies {

// What is known of a row beside its results.
struct RowFacts {
  // Rows with the same one claim the same losses to the bit, seed by seed; empty: none.
  std::string numbers = "";
  std::string but_for_seed = "";  // rows with the same one differ in nothing but seeds
  bool automatic = false;         // the budget solver chose what is kept
};

// The interval in which a row's time of a step lies: the quartiles of all its steps and those of
// the medians of its runs, whichever lie further out.
struct Spread {
  double low = 0, median = 0, high = 0;
  // By how much the steps of this one program vary: the range between their quartiles as a share of
  // the median.
  double variation = 0;
};
Spread SpreadOf(const Row& row);  // of a row with results

// Times that vary by no more can be compared. On a machine that is busy they vary by more.
constexpr double kSteady = 0.03;

enum class Difference { kNone, kFaster, kSlower };

// A figure of a run that depends on its seed.
using SeedFigure = std::optional<double> (Run::*)() const;

// The mean over the row's seeds: runs of one seed have the same value. Nothing where none has one.
std::optional<Mean> OverSeeds(const Row& row, SeedFigure figure);

struct Comparison {
  bool is_baseline = false;
  std::optional<double> speedup;        // time of the baseline / time of the row
  Difference time = Difference::kNone;  // kNone: the two spreads overlap
  // From the baseline, seed by seed. Of seeds that it has no run of: the difference of the means.
  std::optional<Mean> loss_difference, eval_loss_difference;
  // The row whose losses it claims to have, and whether it does in all the steps that both made;
  // -1: it claims nothing.
  int same_as = -1;
  bool same_bits = false;
  int64_t same_steps = 0;  // of how many of `steps`
  int64_t steps = 0;
  bool on_front = false;  // no other row is as small and as fast
};

// `facts` are those of the rows, or empty; `baseline` is an index.
std::vector<Comparison> Compare(const std::vector<Row>& rows, const std::vector<RowFacts>& facts,
                                size_t baseline);

// A law of the program: how many rows it was looked for in, and where it does not hold.
struct Law {
  std::string name;
  int checked = 0;
  std::vector<std::string> broken;       // sentences
  bool must_hold = true;                 // else it rests on times, which vary
  std::vector<std::string> untold = {};  // what times that vary too much leave open; sentences
};

// The bytes used are those predicted; losses that claim to be equal to the bit are, and those of a
// row's own runs; no hand-set policy within the memory of `auto` is faster.
std::vector<Law> CheckLaws(const std::vector<Row>& rows, const std::vector<RowFacts>& facts,
                           const std::vector<Comparison>& comparisons);

}  // namespace plimsoll::studies

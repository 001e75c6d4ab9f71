// What the rows of a study say about each other: differences from the baseline beside the measured
// spread, and the laws that must hold.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "studies/results.h"

namespace plimsoll::studies {

// What is known of a row beside its results.
struct RowFacts {
  std::string numbers = "";  // rows with the same one claim the same losses to the bit; empty: none
  std::string but_for_seed = "";  // rows with the same one differ in nothing but the seed
  std::string seed = "";
  bool automatic = false;  // the budget solver chose what is kept
};

// The interval in which a row's time of a step lies: the quartiles of all its steps, and the
// medians of its runs.
struct Spread {
  double low = 0, median = 0, high = 0;
};
Spread SpreadOf(const Row& row);  // of a row with steps

enum class Difference { kNone, kFaster, kSlower };

struct Comparison {
  int baseline = -1;                    // the row's own: of the same seed, where there is one
  std::optional<double> speedup;        // time of the baseline / time of the row
  Difference time = Difference::kNone;  // kNone: the two spreads overlap
  std::optional<double> loss_difference;
  bool loss_within_seeds = false;  // no more than seeds differ
  // The row whose losses it claims to have, and whether it does; -1: it claims nothing.
  int same_as = -1;
  bool same_bits = false;
  bool on_front = false;  // no other row is as small and as fast
};

// `facts` are those of the rows, or empty; `baseline` is an index.
std::vector<Comparison> Compare(const std::vector<Row>& rows, const std::vector<RowFacts>& facts,
                                size_t baseline);

// A law of the program: how many rows it was looked for in, and where it does not hold.
struct Law {
  std::string name;
  int checked = 0;
  std::vector<std::string> broken;  // sentences
  bool must_hold = true;            // else it rests on times, which vary
};

// The bytes used are those predicted; losses that claim to be equal to the bit are, and those of a
// row's own runs; no hand-set policy within the memory of `auto` is faster.
std::vector<Law> CheckLaws(const std::vector<Row>& rows, const std::vector<RowFacts>& facts,
                           const std::vector<Comparison>& comparisons);

}  // namespace plimsoll::studies

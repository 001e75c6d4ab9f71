#include "studies/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <utility>

#include "base/bytes.h"
#include "base/statistics.h"
#include "trainer/record/energy_windows.h"

namespace plimsoll::studies {
namespace {

// The least number of steps of a run that shares another run's curve (see SharedSteps).
constexpr int64_t kLeastSteps = 20;
constexpr int64_t kOneIn = 20;
// The number of energy windows to measure: two, as this run may be faster than the run whose curve
// it shares.
constexpr int kWindows = 2;

// True if the steps that both runs made have the same losses.
bool SameLosses(const Run& a, const Run& b) {
  const auto steps = static_cast<std::ptrdiff_t>(std::min(a.losses.size(), b.losses.size()));
  // A step without targets has no loss, which is NaN here.
  const auto same = [](double one, double other) {
    return one == other || (std::isnan(one) && std::isnan(other));
  };
  return std::equal(a.losses.begin(), a.losses.begin() + steps, b.losses.begin(), same);
}

const Run* RunOfSeed(const Row& row, const std::string& seed) {
  for (const Run& run : row.runs) {
    if (run.seed == seed) return &run;
  }
  return nullptr;
}

// The first run of each seed of a row.
std::vector<const Run*> FirstRuns(const Row& row) {
  std::vector<const Run*> runs;
  for (const Run& run : row.runs) {
    if (RunOfSeed(row, run.seed) == &run) runs.push_back(&run);
  }
  return runs;
}

// The differences of the row from rows[baseline], seed by seed. If the baseline lacks a seed, a row
// that differs from the baseline only in seeds replaces it for that seed.
std::optional<Mean> DifferenceOf(SeedFigure figure, const Row& row, const std::vector<Row>& rows,
                                 const std::vector<RowFacts>& facts, size_t baseline) {
  const auto base_of = [&](const std::string& seed) {
    const Run* found = RunOfSeed(rows[baseline], seed);
    for (size_t i = 0; i < facts.size() && found == nullptr; ++i) {
      if (!rows[i].measured() || facts[i].but_for_seed != facts[baseline].but_for_seed) continue;
      found = RunOfSeed(rows[i], seed);
    }
    return found;
  };
  std::vector<double> differences;
  for (const Run* run : FirstRuns(row)) {
    const Run* const base = base_of(run->seed);
    if (base == nullptr || !(run->*figure)() || !(base->*figure)()) continue;
    differences.push_back(*(run->*figure)() - *(base->*figure)());
  }
  if (!differences.empty()) return MeanOf(differences);
  const std::optional<Mean> mine = OverSeeds(row, figure), base = OverSeeds(rows[baseline], figure);
  if (!mine || !base) return std::nullopt;
  return Mean{.mean = mine->mean - base->mean, .deviation = {}, .count = 1};
}

Difference DifferenceOf(const Spread& row, const Spread& baseline) {
  if (row.high < baseline.low) return Difference::kFaster;
  if (row.low > baseline.high) return Difference::kSlower;
  return Difference::kNone;
}

std::optional<double> TokensPerStep(const Row& row) {
  if (const std::optional<double> tokens = row.Figure("tokens_per_step")) return tokens;
  const std::optional<double> rate = row.Figure("tokens_per_s");
  return rate ? std::optional(*rate * SpreadOf(row).median * 1e-3) : std::nullopt;
}

// The spread of the time in which the row processes as many tokens as a step of the baseline. If
// the row or the baseline doesn't report its tokens, the spread is that of the row's step time.
Spread ForTheSameTokens(const Row& row, const Row& baseline, bool& by_tokens) {
  Spread spread = SpreadOf(row);
  const std::optional<double> mine = TokensPerStep(row), others = TokensPerStep(baseline);
  by_tokens = mine && others;
  if (!by_tokens) return spread;
  const double times = *mine / *others;
  spread.low /= times;
  spread.median /= times;
  spread.high /= times;
  return spread;
}

bool Dominates(const Row& a, const Row& b) {
  const double bytes_a = *a.peak_bytes(), bytes_b = *b.peak_bytes();
  const double ms_a = SpreadOf(a).median, ms_b = SpreadOf(b).median;
  return bytes_a <= bytes_b && ms_a <= ms_b && (bytes_a < bytes_b || ms_a < ms_b);
}

bool OnFront(size_t row, const std::vector<Row>& rows) {
  if (!rows[row].measured() || !rows[row].peak_bytes()) return false;
  return std::none_of(rows.begin(), rows.end(), [&](const Row& other) {
    return other.measured() && other.peak_bytes() && Dominates(other, rows[row]);
  });
}

Law ArenaLaw(const std::vector<Row>& rows) {
  Law law{.name = "arena bytes used are those predicted"};
  const auto check = [&](const Row& row, const char* what, const std::optional<double>& bytes,
                         const std::optional<double>& predicted) {
    if (!bytes || !predicted) return;
    ++law.checked;
    if (*bytes == *predicted) return;
    law.broken.push_back(
        fmt::format("{}: {:.0f} bytes {}, {:.0f} predicted", row.name, *bytes, what, *predicted));
  };
  for (const Row& row : rows) {
    check(row, "used", row.used_bytes, row.Figure("arena_bytes"));
    // The replay of the caching allocator must be equally exact.
    check(row, "reserved", row.Figure("reserved_bytes"), row.Figure("predicted_reserved_bytes"));
  }
  return law;
}

Law BitsLaw(const std::vector<Row>& rows, const std::vector<Comparison>& comparisons) {
  Law law{.name = "losses that claim to be equal to the bit are"};
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    for (size_t run = 0; run < row.runs.size(); ++run) {
      const Run& first = *RunOfSeed(row, row.runs[run].seed);
      if (&first == &row.runs[run] || first.losses.empty()) continue;
      ++law.checked;
      if (!SameLosses(row.runs[run], first)) {
        law.broken.push_back(fmt::format("{}: run {} of it has other losses", row.name, run + 1));
      }
    }
    if (comparisons[i].same_as < 0) continue;
    ++law.checked;
    if (!comparisons[i].same_bits) {
      law.broken.push_back(fmt::format("{}: other losses than {}", row.name,
                                       rows[static_cast<size_t>(comparisons[i].same_as)].name));
    }
  }
  return law;
}

Law AutoLaw(const std::vector<Row>& rows, const std::vector<RowFacts>& facts) {
  Law law{.name = "no hand-set policy within the memory of `auto` is faster", .must_hold = false};
  for (size_t i = 0; i < facts.size(); ++i) {
    if (!facts[i].automatic || facts[i].numbers.empty() || !rows[i].measured() ||
        !rows[i].peak_bytes()) {
      continue;
    }
    const Spread mine = SpreadOf(rows[i]);
    bool untold = false;
    for (size_t j = 0; j < facts.size(); ++j) {
      const bool comparable = !facts[j].automatic && facts[j].numbers == facts[i].numbers &&
                              rows[j].measured() && rows[j].peak_bytes() &&
                              *rows[j].peak_bytes() <= *rows[i].peak_bytes();
      if (!comparable) continue;
      const Spread other = SpreadOf(rows[j]);
      if (mine.variation >= kSteady || other.variation >= kSteady) {
        untold = true;
        continue;
      }
      if (DifferenceOf(other, mine) != Difference::kFaster) continue;
      law.broken.push_back(fmt::format(
          "{}: {} takes {} and {:.4g} ms, it {} and {:.4g} ms", rows[i].name, rows[j].name,
          FormatBytes(static_cast<int64_t>(*rows[j].peak_bytes())), other.median,
          FormatBytes(static_cast<int64_t>(*rows[i].peak_bytes())), mine.median));
    }
    if (untold) {
      law.untold.push_back(rows[i].name + ": times vary too much to tell");
    } else {
      ++law.checked;
    }
  }
  return law;
}

// Compares the losses of `row` with those of `other`, rows[index], which `row` claims to have.
void CompareLosses(const Row& row, const Row& other, int index, Comparison& comparison) {
  bool same = true;
  for (const Run* run : FirstRuns(row)) {
    const Run* const twin = RunOfSeed(other, run->seed);
    if (twin == nullptr || run->losses.empty() || twin->losses.empty()) continue;
    const auto all = static_cast<int64_t>(std::max(run->losses.size(), twin->losses.size()));
    const int64_t both = std::min({all, run->own_steps.value_or(all), twin->own_steps.value_or(all),
                                   static_cast<int64_t>(run->losses.size()),
                                   static_cast<int64_t>(twin->losses.size())});
    const bool first = comparison.same_as < 0;
    comparison.same_as = index;
    comparison.same_bits = same = same && SameLosses(*run, *twin);
    comparison.same_steps = first ? both : std::min(comparison.same_steps, both);
    comparison.steps = std::max(comparison.steps, all);
  }
}

}  // namespace

Spread SpreadOf(const Row& row) {
  std::vector<double> all, medians;
  for (const Run& run : row.runs) {
    all.insert(all.end(), run.step_ms.begin(), run.step_ms.end());
    medians.push_back(run.median_ms());
  }
  const Quartiles steps = QuartilesOf(std::move(all)), of_runs = QuartilesOf(std::move(medians));
  return {.low = std::min(steps.low, of_runs.low),
          .median = steps.median,
          .high = std::max(steps.high, of_runs.high),
          .variation = (steps.high - steps.low) / steps.median};
}

std::optional<double> TokensPerSecond(const Row& row) {
  if (!row.has_results()) return std::nullopt;
  const std::optional<double> tokens = TokensPerStep(row);
  return tokens ? std::optional(*tokens / SpreadOf(row).median * 1e3) : std::nullopt;
}

std::optional<Mean> OverSeeds(const Row& row, SeedFigure figure) {
  std::vector<double> values;
  for (const Run* run : FirstRuns(row)) {
    if (const std::optional<double> value = (run->*figure)()) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  return MeanOf(values);
}

std::vector<Comparison> Compare(const std::vector<Row>& rows, const std::vector<RowFacts>& facts,
                                size_t baseline) {
  std::vector<Comparison> comparisons(rows.size());
  // For each claim (RowFacts::numbers), the rows to compare with: the baseline if it has a run of
  // the same seed, else the first row with such a run.
  std::map<std::string, std::vector<size_t>> standing;
  if (!facts.empty() && rows[baseline].measured()) standing[facts[baseline].numbers] = {baseline};
  for (size_t i = 0; i < rows.size(); ++i) {
    Comparison& comparison = comparisons[i];
    comparison.is_baseline = i == baseline;
    if (!rows[i].measured()) continue;
    comparison.on_front = OnFront(i, rows);
    if (!facts.empty() && !facts[i].numbers.empty()) {
      std::vector<size_t>& candidates = standing[facts[i].numbers];
      for (const size_t other : candidates) {
        if (other == i || comparison.same_as >= 0) continue;
        CompareLosses(rows[i], rows[other], static_cast<int>(other), comparison);
      }
      if (comparison.same_as < 0 && i != baseline) candidates.push_back(i);
    }
    const Row& base = rows[baseline];
    if (i == baseline || !base.measured()) continue;
    const Spread of_base = SpreadOf(base);
    const Spread spread = ForTheSameTokens(rows[i], base, comparison.speedup_by_tokens);
    comparison.speedup = of_base.median / spread.median;
    comparison.speedups = Interval{of_base.low / spread.high, of_base.high / spread.low};
    comparison.time = DifferenceOf(spread, of_base);
    comparison.loss_difference = DifferenceOf(&Run::loss, rows[i], rows, facts, baseline);
    comparison.eval_loss_difference = DifferenceOf(&Run::eval_loss, rows[i], rows, facts, baseline);
  }
  return comparisons;
}

std::vector<Law> CheckLaws(const std::vector<Row>& rows, const std::vector<RowFacts>& facts,
                           const std::vector<Comparison>& comparisons) {
  return {ArenaLaw(rows), BitsLaw(rows, comparisons), AutoLaw(rows, facts)};
}

int64_t SharedSteps(int64_t warmup, int64_t all_steps) {
  const int64_t share = (all_steps + kOneIn - 1) / kOneIn;
  return std::min(all_steps, warmup + std::max(kLeastSteps, share));
}

int64_t SharedSteps(int64_t warmup, int64_t all_steps, const nlohmann::ordered_json& whole) {
  const int64_t steps = SharedSteps(warmup, all_steps);
  const auto number = [&](const char* key) {
    const auto found = whole.find(key);
    return found != whole.end() && found->is_number() ? found->get<double>() : 0;
  };
  if (number("joules_per_step") <= 0 || number("step_ms") <= 0) return steps;
  constexpr std::chrono::duration<double> kSeconds = kWindows * trainer::EnergyWindows::kShortest;
  const double needed = std::ceil(1e3 * kSeconds.count() / number("step_ms"));
  // Compares before the conversion: the double may not fit an int64_t.
  if (needed >= static_cast<double>(all_steps)) return all_steps;
  return std::min(all_steps, std::max(steps, warmup + static_cast<int64_t>(needed)));
}

void ShareCurves(const std::vector<RowFacts>& facts, size_t baseline, std::vector<Row>& rows) {
  std::vector<size_t> order = {baseline};
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i != baseline) order.push_back(i);
  }
  // The longest run of each claim and seed.
  std::map<std::pair<std::string, std::string>, const Run*> longest;
  const auto each = [&](auto visit) {
    for (const size_t i : order) {
      if (facts[i].numbers.empty()) continue;
      for (Run& run : rows[i].runs) visit(run, longest[{facts[i].numbers, run.seed}]);
    }
  };
  each([](const Run& run, const Run*& of_claim) {
    if (of_claim == nullptr || run.losses.size() > of_claim->losses.size()) of_claim = &run;
  });
  each([](Run& run, const Run* of_claim) {
    if (run.losses.size() == of_claim->losses.size() || !SameLosses(run, *of_claim)) return;
    run.own_steps = static_cast<int64_t>(run.losses.size());
    run.losses = of_claim->losses;
    run.evaluations = of_claim->evaluations;
  });
}

}  // namespace plimsoll::studies

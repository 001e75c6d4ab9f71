#include "studies/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/bytes.h"
#include "base/statistics.h"

namespace plimsoll::studies {
namespace {

bool Done(const Row& row) { return row.status == Status::kDone && !row.step_ms.empty(); }

// The baseline's twin of the row's seed, or the baseline.
size_t BaselineOf(size_t row, const std::vector<RowFacts>& facts, size_t baseline) {
  if (facts.empty() || facts[row].seed.empty()) return baseline;
  for (size_t i = 0; i < facts.size(); ++i) {
    if (facts[i].but_for_seed == facts[baseline].but_for_seed && facts[i].seed == facts[row].seed) {
      return i;
    }
  }
  return baseline;
}

// By how much the losses of rows that differ in nothing but the seed do; 0 where there is one.
double SeedSpread(size_t row, const std::vector<Row>& rows, const std::vector<RowFacts>& facts) {
  if (facts.empty() || facts[row].but_for_seed.empty()) return 0;
  double low = INFINITY, high = -INFINITY;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (facts[i].but_for_seed != facts[row].but_for_seed || !Done(rows[i]) || !rows[i].loss()) {
      continue;
    }
    low = std::min(low, *rows[i].loss());
    high = std::max(high, *rows[i].loss());
  }
  return high >= low ? high - low : 0;
}

Difference DifferenceOf(const Spread& row, const Spread& baseline) {
  if (row.high < baseline.low) return Difference::kFaster;
  if (row.low > baseline.high) return Difference::kSlower;
  return Difference::kNone;
}

bool Dominates(const Row& a, const Row& b) {
  const double bytes_a = *a.peak_bytes(), bytes_b = *b.peak_bytes();
  const double ms_a = SpreadOf(a).median, ms_b = SpreadOf(b).median;
  return bytes_a <= bytes_b && ms_a <= ms_b && (bytes_a < bytes_b || ms_a < ms_b);
}

bool OnFront(size_t row, const std::vector<Row>& rows) {
  if (!Done(rows[row]) || !rows[row].peak_bytes()) return false;
  return std::none_of(rows.begin(), rows.end(), [&](const Row& other) {
    return Done(other) && other.peak_bytes() && Dominates(other, rows[row]);
  });
}

Law ArenaLaw(const std::vector<Row>& rows) {
  Law law{.name = "arena bytes used are those predicted", .checked = 0, .broken = {}};
  for (const Row& row : rows) {
    const std::optional<double> arena = row.Figure("arena_bytes");
    if (row.used_bytes && arena) {
      ++law.checked;
      if (static_cast<double>(*row.used_bytes) != *arena) {
        law.broken.push_back(
            fmt::format("{}: {} bytes used, {:.0f} predicted", row.name, *row.used_bytes, *arena));
      }
    }
    // The caching allocator's replay is as exact.
    const std::optional<double> reserved = row.Figure("reserved_bytes"),
                                predicted = row.Figure("predicted_reserved_bytes");
    if (reserved && predicted) {
      ++law.checked;
      if (*reserved != *predicted) {
        law.broken.push_back(fmt::format("{}: {:.0f} bytes reserved, {:.0f} predicted", row.name,
                                         *reserved, *predicted));
      }
    }
  }
  return law;
}

Law BitsLaw(const std::vector<Row>& rows, const std::vector<Comparison>& comparisons) {
  Law law{.name = "losses that claim to be equal to the bit are", .checked = 0, .broken = {}};
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    for (size_t run = 1; run < row.losses.size(); ++run) {
      ++law.checked;
      if (row.losses[run] != row.losses[0]) {
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
  Law law{.name = "no hand-set policy within the memory of `auto` is faster",
          .checked = 0,
          .broken = {},
          .must_hold = false};
  for (size_t i = 0; i < facts.size(); ++i) {
    if (!facts[i].automatic || facts[i].numbers.empty() || !Done(rows[i]) ||
        !rows[i].peak_bytes()) {
      continue;
    }
    ++law.checked;
    for (size_t j = 0; j < facts.size(); ++j) {
      const bool comparable = !facts[j].automatic && facts[j].numbers == facts[i].numbers &&
                              Done(rows[j]) && rows[j].peak_bytes() &&
                              *rows[j].peak_bytes() <= *rows[i].peak_bytes();
      if (!comparable ||
          DifferenceOf(SpreadOf(rows[j]), SpreadOf(rows[i])) != Difference::kFaster) {
        continue;
      }
      law.broken.push_back(fmt::format(
          "{}: {} takes {} and {:.4g} ms, it {} and {:.4g} ms", rows[i].name, rows[j].name,
          FormatBytes(static_cast<int64_t>(*rows[j].peak_bytes())), SpreadOf(rows[j]).median,
          FormatBytes(static_cast<int64_t>(*rows[i].peak_bytes())), SpreadOf(rows[i]).median));
    }
  }
  return law;
}

}  // namespace

Spread SpreadOf(const Row& row) {
  const Quartiles steps = QuartilesOf(row.step_ms);
  Spread spread{steps.low, steps.median, steps.high};
  for (const double median : row.medians) {
    spread.low = std::min(spread.low, median);
    spread.high = std::max(spread.high, median);
  }
  return spread;
}

std::vector<Comparison> Compare(const std::vector<Row>& rows, const std::vector<RowFacts>& facts,
                                size_t baseline) {
  std::vector<Comparison> comparisons(rows.size());
  // The row that stands for each claim: the baseline for its own, else the first.
  std::map<std::string, int> first;
  if (!facts.empty() && Done(rows[baseline]) && !rows[baseline].losses.empty()) {
    first[facts[baseline].numbers] = static_cast<int>(baseline);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    Comparison& comparison = comparisons[i];
    if (!Done(rows[i])) continue;
    comparison.on_front = OnFront(i, rows);
    if (!facts.empty() && !facts[i].numbers.empty() && !rows[i].losses.empty()) {
      const auto [found, is_first] = first.emplace(facts[i].numbers, static_cast<int>(i));
      if (!is_first && found->second != static_cast<int>(i)) {
        comparison.same_as = found->second;
        comparison.same_bits =
            rows[i].losses[0] == rows[static_cast<size_t>(found->second)].losses[0];
      }
    }
    const size_t mine = BaselineOf(i, facts, baseline);
    const Row& base = rows[mine];
    if (!Done(base)) continue;
    comparison.baseline = static_cast<int>(mine);
    if (mine == i) continue;
    const Spread spread = SpreadOf(rows[i]), of_base = SpreadOf(base);
    comparison.speedup = of_base.median / spread.median;
    comparison.time = DifferenceOf(spread, of_base);
    if (rows[i].loss() && base.loss()) {
      comparison.loss_difference = *rows[i].loss() - *base.loss();
      const double seeds = std::max(SeedSpread(i, rows, facts), SeedSpread(mine, rows, facts));
      comparison.loss_within_seeds = std::abs(*comparison.loss_difference) <= seeds;
    }
  }
  return comparisons;
}

std::vector<Law> CheckLaws(const std::vector<Row>& rows, const std::vector<RowFacts>& facts,
                           const std::vector<Comparison>& comparisons) {
  return {ArenaLaw(rows), BitsLaw(rows, comparisons), AutoLaw(rows, facts)};
}

}  // namespace plimsoll::studies

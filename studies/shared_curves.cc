#include "studies/shared_curves.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "trainer/record/energy_windows.h"

namespace plimsoll::studies {
namespace {

constexpr int64_t kLeastSteps = 20;
constexpr int64_t kOneIn = 20;
constexpr int kWindows = 2;  // of energy: this run may be faster than the other

}  // namespace

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
  // Compared before the conversion: the double may not fit an int64_t.
  if (needed >= static_cast<double>(all_steps)) return all_steps;
  return std::min(all_steps, std::max(steps, warmup + static_cast<int64_t>(needed)));
}

bool SameLosses(const Run& a, const Run& b) {
  const auto steps = static_cast<std::ptrdiff_t>(std::min(a.losses.size(), b.losses.size()));
  // A step without targets has no loss, which is NaN here.
  const auto same = [](double one, double other) {
    return one == other || (std::isnan(one) && std::isnan(other));
  };
  return std::equal(a.losses.begin(), a.losses.begin() + steps, b.losses.begin(), same);
}

void ShareCurves(const std::vector<RowFacts>& facts, size_t baseline, std::vector<Row>& rows) {
  std::vector<size_t> order = {baseline};
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i != baseline) order.push_back(i);
  }
  std::map<std::pair<std::string, std::string>, const Run*> longest;  // by claim
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

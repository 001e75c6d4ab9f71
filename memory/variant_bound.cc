#include "memory/variant_bound.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>

#include "memory/step_use.h"

namespace plimsoll::memory {
namespace {

// The part of the seconds by which a plan may be faster than keeping everything. Keeping everything
// is nearly always the fastest, but computing a norm again within its gradient's kernel, or hiding
// a copy by more work, may save a little.
constexpr double kFasterThanKeeping = 0.005;

// A price: bytes of activations of one micro-step, and the least seconds of recomputing them. A
// block has several prices, by rising seconds per byte.
struct Price {
  int64_t bytes;
  double seconds;
};

std::vector<Price> PricesOf(const Variant& variant, const CostModel& cost) {
  const graph::Program& base = *variant.bases.front();
  std::vector<double> seconds = cost.NodeSeconds(base);
  // Memory-bound ops may cost nothing within the kernel of a gradient, which reads their input
  // anyway.
  constexpr double kOfProducts = 0.95;
  for (size_t n = 0; n < seconds.size(); ++n) {
    seconds[n] *= base.nodes()[n].op->cheap_to_recompute ? 0 : kOfProducts;
  }
  const std::vector<std::vector<int>> segments = DecisionsByBlock(variant);
  const std::vector<std::string> texts = TextsOf(variant);
  std::map<std::string, std::vector<Price>> known;
  std::vector<Price> prices;
  for (size_t i = 0; i < segments.size(); ++i) {
    const auto [found, fresh] = known.try_emplace(texts[i]);
    if (fresh) {
      // Follows the lower hull of the options, beginning with the option that keeps everything.
      Price kept = {0, 0};
      for (int d : segments[i]) kept.bytes += variant.decisions[d].bytes;
      const std::vector<BlockOption> options = FindBlockOptions(
          base, variant.decisions, segments[i], seconds, {.offload = false, .within_block = false});
      while (true) {
        Price best = kept;
        double least = std::numeric_limits<double>::infinity();
        for (const BlockOption& option : options) {
          if (option.kept_bytes >= kept.bytes) continue;
          const double price =
              (option.seconds - kept.seconds) / static_cast<double>(kept.bytes - option.kept_bytes);
          if (price >= least) continue;
          least = price;
          best = {option.kept_bytes, option.seconds};
        }
        if (best.bytes == kept.bytes) break;
        found->second.push_back({kept.bytes - best.bytes, best.seconds - kept.seconds});
        kept = best;
      }
    }
    prices.insert(prices.end(), found->second.begin(), found->second.end());
  }
  return prices;
}

}  // namespace

VariantBound::VariantBound(const Variant& variant, const KeptUse& keep, const CostModel& cost,
                           const SolverOptions& options) {
  cost_.seconds = (1 - kFasterThanKeeping) * keep.seconds();
  work_ = (1 - kFasterThanKeeping) * keep.work();
  cost_.device_bytes = keep.device_bytes;
  cost_.host_bytes = keep.host_bytes;
  // Between the forward and the backward pass, all kept activations are alive.
  int64_t head = 0, saved = 0;
  for (size_t p = 0; p < keep.programs.size(); ++p) {
    if (keep.times[p] == 0) continue;
    head = std::max(head, keep.programs[p].peaks[HeadRegion(variant.blocks())]);
  }
  for (const Decision& decision : variant.decisions) saved += variant.copies() * decision.bytes;
  // Copies of parameters take the memory that is left.
  const bool travels = keep.copies && cost.rates().copies_overlap();
  all_bytes_ = cost_.device_bytes + (travels ? saved : head);
  if (options.one_memory) cost_.device_bytes += cost_.host_bytes;
  // The time of recomputation cannot be bounded in two cases: if there are several objectives,
  // because their activations are not alive at the same time, and if activations may be offloaded,
  // because their copies may cost no time.
  const bool away = std::ranges::any_of(variant.decisions, &Decision::offload);
  if (variant.bases.size() > 1 || away) return;
  for (const Price& price : PricesOf(variant, cost)) {
    savings_.push_back(
        {static_cast<double>(variant.copies() * price.bytes), keep.micro_steps * price.seconds});
  }
  std::ranges::sort(savings_, {},
                    [](const Saving& saving) { return saving.seconds / saving.bytes; });
  for (size_t i = 1; i < savings_.size(); ++i) {
    savings_[i].bytes += savings_[i - 1].bytes;
    savings_[i].seconds += savings_[i - 1].seconds;
  }
  // Some policies also drop activations that no option of a block drops.
  if (!savings_.empty() && static_cast<double>(saved) > savings_.back().bytes) {
    savings_.push_back({static_cast<double>(saved), savings_.back().seconds});
  }
}

double VariantBound::SecondsWithin(int64_t device_bytes) const {
  const auto too_many = static_cast<double>(all_bytes_ - device_bytes);
  if (savings_.empty() || too_many <= 0) return cost_.seconds;
  Saving before = {0, 0};
  for (const Saving& saving : savings_) {
    if (saving.bytes >= too_many) {
      const double part = (too_many - before.bytes) / (saving.bytes - before.bytes);
      return std::max(cost_.seconds,
                      work_ + before.seconds + part * (saving.seconds - before.seconds));
    }
    before = saving;
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace plimsoll::memory

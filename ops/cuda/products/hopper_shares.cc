#include "ops/cuda/products/hopper_shares.h"

#include <algorithm>

namespace plimsoll::ops {
namespace {

// A cluster's share of a tile, built run by run.
class GrowingShare {
 public:
  explicit GrowingShare(int tile) : share_{static_cast<uint16_t>(tile), 0, {}} {}

  void Add(int64_t first, int64_t stride, int64_t count) {
    share_.runs[runs_++] = {static_cast<uint16_t>(first), static_cast<uint16_t>(stride),
                            static_cast<uint16_t>(count)};
  }
  bool empty() const { return runs_ == 0; }
  TileShare Numbered(uint16_t part) {
    share_.part = part;
    return share_;
  }

 private:
  TileShare share_;
  int runs_ = 0;
};

// The cost of a share in addition to its steps, measured in steps: waiting for its first operands,
// and writing its sums.
constexpr int kShareCost = 3;
// Less help, in steps, isn't worth that cost.
constexpr int kLeastHelp = 8;

// Help by one cluster for one tile. A cluster takes one step per unit of time.
struct Help {
  int helper;
  int64_t begin, end;  // begin and end in time
};

// Divides the time of all helpers, one after the other, evenly among the tiles. Returns the help
// for one tile.
std::vector<Help> HelpFor(int tile, int tiles, int helpers, int64_t time) {
  std::vector<Help> help;
  for (int helper = 0; helper < helpers; ++helper) {
    const int64_t start = helper * time / helpers;
    const int64_t begin = std::max(start, tile * time / tiles);
    const int64_t end = std::min((helper + 1) * time / helpers, (tile + 1) * time / tiles);
    if (end - begin >= kLeastHelp + kShareCost) {
      help.push_back({helper, begin + kShareCost - start, end - start});
    }
  }
  std::sort(help.begin(), help.end(),
            [](const Help& a, const Help& b) { return a.begin < b.begin; });
  return help;  // at most two entries: a tile gets at most one helper's time
}

}  // namespace

StepShares ShareSteps(int tiles, int steps, int clusters) {
  const int owners = clusters / tiles, helpers = clusters % tiles;
  // All clusters finish at the same time: the total work divided by their number.
  const int64_t time = (int64_t{tiles} * (steps + kShareCost) + helpers * kShareCost) / clusters;
  const int64_t help_time = helpers * time;
  std::vector<std::vector<TileShare>> of(static_cast<size_t>(clusters));
  StepShares result;
  uint16_t part = 0;
  for (int tile = 0; tile < tiles; ++tile) {
    result.parts.push_back(part);
    std::vector<GrowingShare> owned(static_cast<size_t>(owners), GrowingShare(tile));
    int64_t next = 0, now = 0;
    // Owners, and the helper if there is one, take `length` steps each.
    const auto together = [&](int64_t length, GrowingShare* helper) {
      const int all = owners + (helper != nullptr ? 1 : 0);
      length = std::min(length, (steps - next) / all);
      if (length <= 0) return;
      for (int i = 0; i < owners; ++i) owned[static_cast<size_t>(i)].Add(next + i, all, length);
      if (helper != nullptr) helper->Add(next + owners, all, length);
      next += length * all;
    };
    std::vector<std::pair<int, GrowingShare>> helped;
    for (const Help& help : HelpFor(tile, tiles, helpers, help_time)) {
      GrowingShare share(tile);
      together(help.begin - now, nullptr);
      together(help.end - help.begin, &share);
      now = help.end;
      helped.emplace_back(owners * tiles + help.helper, share);
    }
    for (int i = 0; i < owners; ++i) {  // the remaining steps
      const int64_t count = (steps - next - i + owners - 1) / owners;
      if (count > 0) owned[static_cast<size_t>(i)].Add(next + i, owners, count);
    }
    const auto keep = [&](int cluster, GrowingShare& share) {
      if (!share.empty()) of[static_cast<size_t>(cluster)].push_back(share.Numbered(part++));
    };
    for (int i = 0; i < owners; ++i) keep(tile * owners + i, owned[static_cast<size_t>(i)]);
    for (auto& [cluster, share] : helped) keep(cluster, share);
  }
  result.parts.push_back(part);
  for (const std::vector<TileShare>& shares : of) {
    result.begin.push_back(static_cast<uint16_t>(result.shares.size()));
    result.shares.insert(result.shares.end(), shares.begin(), shares.end());
  }
  result.begin.push_back(static_cast<uint16_t>(result.shares.size()));
  return result;
}

}  // namespace plimsoll::ops

#include "memory/option_front.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

namespace plimsoll::memory {
namespace {

// Limits on the number of combinations, for the blocks from one block to the last, that the search
// keeps. If there are more, it keeps those with evenly spaced needs. With copies, combinations also
// differ in the distance to the next block that copies.
constexpr size_t kCarried = 2048, kCarriedWithCopies = 256;
// The limit on the number of combinations if an option may cover a chain of blocks. Chains multiply
// the number of options.
constexpr size_t kCarriedWithChains = 1024;

// The bytes of a copy in flight count in addition to the needs of at most this many blocks.
constexpr size_t kNear = 4;

// A combination of options for the blocks from one block to the last.
struct Part {
  int64_t need = 0;
  double seconds = 0;
  int option = 0;
  int next = -1;  // index of the combination for the later blocks
};

// A combination that the search keeps.
struct Carried : Part {
  std::array<int64_t, kNear> near = {};  // the need of the combination's first block, of its first
                                         // two blocks, …
};

bool Before(const Part& a, const Part& b) {
  return a.need != b.need ? a.need < b.need : a.seconds < b.seconds;
}

// Keeps the part with the least need of the sorted parts, and the last part within each of `count`
// evenly spaced needs.
void Thin(std::vector<Part>& parts, size_t count) {
  if (parts.size() <= count) return;
  const auto least = static_cast<double>(parts.front().need),
             width = (static_cast<double>(parts.back().need) - least) / static_cast<double>(count);
  std::vector<Part> kept = {parts.front()};
  for (size_t i = 1; i < parts.size(); ++i) {
    const auto space = [&](const Part& part) {
      return static_cast<int64_t>((static_cast<double>(part.need) - least) / width);
    };
    const bool last = i + 1 == parts.size() || space(parts[i + 1]) != space(parts[i]);
    if (last) kept.push_back(parts[i]);
  }
  parts = std::move(kept);
}

// Returns, sorted, the part with the least need, and the fastest part within each of `count` evenly
// spaced needs up to the need of the fastest part.
std::vector<Part> FastestOfSpaces(const std::vector<Part>& parts, size_t count) {
  const auto faster = [](const Part& a, const Part& b) {
    return a.seconds != b.seconds ? a.seconds < b.seconds : a.need < b.need;
  };
  const Part& smallest = *std::ranges::min_element(parts, Before);
  const Part& fastest = *std::ranges::min_element(parts, faster);
  const double spaces_a_byte =
      static_cast<double>(count) / std::max(1.0, static_cast<double>(fastest.need - smallest.need));
  std::vector<const Part*> of_space(count + 1, nullptr);
  for (const Part& part : parts) {
    if (part.need > fastest.need) continue;
    const Part*& best = of_space[static_cast<size_t>(
        static_cast<double>(part.need - smallest.need) * spaces_a_byte)];
    if (best == nullptr || faster(part, *best)) best = &part;
  }
  std::vector<Part> kept = {smallest};
  for (const Part* part : of_space) {
    if (part != nullptr) kept.push_back(*part);
  }
  return kept;
}

// The parts that no other part beats, by ascending need and falling seconds; of many parts, those
// that Thin keeps.
std::vector<Part> FrontOf(std::vector<Part> parts, size_t limit) {
  constexpr size_t kMany = 2, kFiner = 16;
  if (parts.size() > kMany * limit) {
    parts = FastestOfSpaces(parts, kFiner * limit);
  } else {
    std::ranges::stable_sort(parts, Before);
  }
  double fastest = std::numeric_limits<double>::infinity();
  std::erase_if(parts, [&](const Part& part) {
    if (part.seconds >= fastest) return true;
    fastest = part.seconds;
    return false;
  });
  Thin(parts, limit);
  return parts;
}

class OptionSearch {
 public:
  explicit OptionSearch(const OptionProblem& problem)
      : problem_(problem), blocks_(static_cast<int>(problem.blocks.size())) {
    bool chains = false;
    for (const auto& options : problem.blocks) {
      for (const OptionCost& option : options) {
        longest_copy_ = std::max(longest_copy_, option.copy_seconds);
        chains = chains || option.blocks > 1;
      }
    }
    limit_ = longest_copy_ > 0 ? kCarriedWithCopies : chains ? kCarriedWithChains : kCarried;
    made_.resize(problem.blocks.size() + 1);
    made_.back() = {{Carried{}}};
  }

  std::vector<OptionPoint> Run(size_t limit) {
    for (int block = blocks_ - 1; block >= 0; --block) made_[block] = Extend(block);
    std::vector<Part> all;
    for (const std::vector<Carried>& some : made_[0]) {
      std::ranges::copy(some, std::back_inserter(all));
    }
    std::vector<OptionPoint> points;
    for (const Part& part : FrontOf(std::move(all), limit)) {
      std::vector<int> options;  // option of each block; -1 within a chain
      const Part* of_block = &part;
      bool chains = false;
      for (int block = 0; block < blocks_;) {
        const int covered = problem_.blocks[block][of_block->option].blocks;
        chains = chains || covered > 1;
        options.push_back(of_block->option);
        options.resize(options.size() + covered - 1, -1);
        block += covered;
        if (block < blocks_) of_block = &MadeAt(block, of_block->next);
      }
      int64_t peak = part.need;
      if (longest_copy_ == 0 && !chains) peak = SortAlike(options);
      OptionPoint& point = points.emplace_back(part.seconds, peak, std::vector<int>());
      for (int block = 0; block < blocks_; ++block) {
        point.options.push_back(options[block] < 0 ? -1
                                                   : problem_.blocks[block][options[block]].option);
      }
    }
    std::ranges::reverse(points);
    return points;
  }

 private:
  double SecondsOf(const std::vector<int>& options) const {
    double seconds = 0;
    for (int block = 0; block < blocks_; ++block) {
      seconds += problem_.blocks[block][options[block]].seconds;
    }
    return seconds;
  }

  // The peak of a combination without copies.
  int64_t PeakOf(const std::vector<int>& options) const {
    int64_t before = 0, peak = 0;
    for (int block = 0; block < blocks_; ++block) {
      const OptionCost& option = problem_.blocks[block][options[block]];
      peak = std::max(peak, before + option.need);
      if (option.arriving > 0 && block + 1 < blocks_) {
        const OptionCost& next = problem_.blocks[block + 1][options[block + 1]];
        peak = std::max(peak, before + option.kept + next.need + option.arriving);
      }
      before += option.kept;
    }
    return peak;
  }

  // Redistributes the options of blocks that are alike among these blocks, the options that keep
  // less first, unless the peak or the seconds grow. Returns the peak.
  int64_t SortAlike(std::vector<int>& options) const {
    // A difference of seconds smaller than this comes from the order of addition.
    constexpr double kSame = 1e-9;
    const int64_t before = PeakOf(options);
    if (problem_.likes.empty()) return before;
    std::map<int, std::vector<const OptionCost*>> by_like;
    for (int block = 0; block < blocks_; ++block) {
      by_like[problem_.likes[block]].push_back(&problem_.blocks[block][options[block]]);
    }
    for (auto& [like, some] : by_like) {
      std::ranges::stable_sort(some, std::greater<>(), &OptionCost::kept);
    }
    std::vector<int> sorted;
    for (int block = 0; block < blocks_; ++block) {
      std::vector<const OptionCost*>& some = by_like[problem_.likes[block]];
      const std::vector<OptionCost>& own = problem_.blocks[block];
      const auto same = std::ranges::find(own, some.back()->option, &OptionCost::option);
      if (same == own.end()) return before;
      sorted.push_back(static_cast<int>(same - own.begin()));
      some.pop_back();
    }
    const int64_t after = PeakOf(sorted);
    if (after > before || SecondsOf(sorted) > SecondsOf(options) + kSame) return before;
    options = std::move(sorted);
    return after;
  }

  // The combination for the blocks from `block` on that has this index among all of them.
  const Carried& MadeAt(int block, int index) const {
    auto at = static_cast<size_t>(index);
    for (const std::vector<Carried>& some : made_[block]) {
      if (at < some.size()) return some[at];
      at -= some.size();
    }
    return made_[block].back().back();
  }

  // The combinations for the blocks from `block` on, made from those for the blocks after each
  // option.
  std::vector<std::vector<Carried>> Extend(int block) {
    std::vector<std::vector<Part>> made(1);  // by distance to the next block that copies
    const std::vector<OptionCost>& options = problem_.blocks[block];
    size_t distances = 0;
    for (const OptionCost& option : options) {
      distances = std::max(distances, made_[block + option.blocks].size());
    }
    // For each option: the index, as in MadeAt, of the first combination at the current `distance`
    // for the blocks after the option.
    std::vector<int> first(options.size(), 0);
    for (size_t distance = 0; distance < distances; ++distance) {
      for (size_t option = 0; option < options.size(); ++option) {
        const auto covered = static_cast<size_t>(options[option].blocks);
        const std::vector<std::vector<Carried>>& after = made_[block + covered];
        if (distance >= after.size()) continue;
        const size_t further =
            distance == 0 || IsFar(block, distance + covered) ? 0 : distance + covered;
        const bool copies = options[option].copy_seconds > 0;
        const size_t to = copies ? !IsFar(block, 1) : further;
        if (made.size() <= to) made.resize(to + 1);
        AddWith(block, static_cast<int>(option), static_cast<int>(distance), after[distance],
                first[option], made[to]);
        first[option] += static_cast<int>(after[distance].size());
      }
    }
    std::vector<std::vector<Carried>> extended;
    for (std::vector<Part>& parts : made) {
      std::vector<Carried>& carried = extended.emplace_back();
      for (const Part& part : FrontOf(std::move(parts), limit_)) {
        carried.push_back({part, NearOf(block, part)});
      }
    }
    return extended;
  }

  // The bytes that are held until the block's backward pass, including copies that are in flight at
  // the end of the forward pass.
  int64_t KeptOf(const OptionCost& option, int window) const {
    return option.kept + (window < 0 ? option.arriving : 0);
  }

  // Adds to `parts` the combinations of option `number` with each combination of `after`, which
  // are those for the blocks after it. `first`: the index of the first combination of `after` among
  // those of all distances.
  void AddWith(int block, int number, int distance, const std::vector<Carried>& after, int first,
               std::vector<Part>& parts) const {
    const OptionCost& option = problem_.blocks[block][number];
    const double copies = option.copy_seconds;
    const double seconds =
        option.seconds +
        problem_.micro_steps * (Wait(block, distance, copies) + 2 * problem_.copies_slow * copies);
    const int window = Window(block, problem_.copy_slack * copies);
    const int64_t kept = KeptOf(option, window);
    for (const Carried& part : after) {
      const int64_t beside =
          option.arriving > 0 && window >= 0 ? part.near[window] + option.arriving : 0;
      parts.push_back({std::max(option.need, kept + std::max(part.need, beside)),
                       part.seconds + seconds, number, first++});
    }
  }

  std::array<int64_t, kNear> NearOf(int block, const Part& part) const {
    const OptionCost& option = problem_.blocks[block][part.option];
    const int64_t kept = KeptOf(option, Window(block, problem_.copy_slack * option.copy_seconds));
    const auto covered = static_cast<size_t>(option.blocks);
    const Carried& after = MadeAt(block + option.blocks, part.next);
    std::array<int64_t, kNear> near;
    near.fill(option.need);
    for (size_t i = covered; i < kNear; ++i) {
      near[i] = std::max(option.need, kept + after.near[i - covered]);
    }
    return near;
  }

  // How many blocks after the next one have backward passes during which a copy that takes
  // `seconds` before the block's backward pass holds its bytes; -1: the copy is also in flight, to
  // the host or back, at the end of the forward pass.
  int Window(int block, double seconds) const {
    if (seconds == 0) return 0;
    double forward = 0, backward = 0;
    int window = -1;
    for (int i = block + 1; i < blocks_; ++i) {
      forward += problem_.times[i].forward;
      backward += problem_.times[i].backward;
      if (window < 0 && backward >= seconds) window = i - block - 1;
    }
    return forward < seconds ? -1 : std::min(window, static_cast<int>(kNear) - 1);
  }

  // Whether `distance` blocks, from this one on, compute at least as long as the longest copy
  // takes, both in the forward pass and in the backward pass.
  bool IsFar(int block, size_t distance) const {
    double forward = 0, backward = 0;
    for (int i = block; i < block + static_cast<int>(distance) && i < blocks_; ++i) {
      forward += problem_.times[i].forward;
      backward += problem_.times[i].backward;
    }
    return std::min(forward, backward) >= longest_copy_;
  }

  // The seconds that the computation waits for a block's copies.
  double Wait(int block, int distance, double copy_seconds) const {
    if (copy_seconds == 0) return 0;
    const int end = distance == 0 ? blocks_ - 1 : block + distance;
    double forward = distance == 0 ? problem_.head_seconds : 0, backward = 0;
    for (int i = block + 1; i <= end; ++i) {
      forward += problem_.times[i].forward;
      backward += problem_.times[i].backward;
    }
    return std::max(0.0, copy_seconds - forward) + std::max(0.0, copy_seconds - backward);
  }

  const OptionProblem& problem_;
  const int blocks_;
  double longest_copy_ = 0;
  size_t limit_ = kCarried;
  // The combinations for the blocks from one block on: by block, and by the distance to the next
  // block that copies (0: no such block, or one that is far enough). The last entry is the
  // combination for no block.
  std::vector<std::vector<std::vector<Carried>>> made_;
};

}  // namespace

std::vector<OptionPoint> FrontOfOptions(const OptionProblem& problem, size_t limit) {
  return OptionSearch(problem).Run(limit);
}

}  // namespace plimsoll::memory

#include "memory/block_shapes.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "base/parallel_each.h"

namespace plimsoll::memory {

using graph::Retention;

namespace {

constexpr int kSides =
    4;  // the number of options for decisions outside the blocks, if such decisions exist
constexpr int kThorough = 10;  // a search with fewer options is a quick look

Fates ShapeOf(const BlockOption& option, bool copies_overlap) {
  Fates shape = option.fates;
  if (copies_overlap) std::ranges::replace(shape, Retention::kOffload, Retention::kSave);
  return shape;
}

}  // namespace

std::vector<std::vector<int>> DecisionsByBlock(const Variant& variant) {
  const int blocks = variant.blocks();
  std::vector<std::vector<int>> segments(static_cast<size_t>(blocks) + 1);
  for (size_t d = 0; d < variant.decisions.size(); ++d) {
    const int block = variant.decisions[d].block;
    segments[block < 0 ? blocks : block].push_back(static_cast<int>(d));
  }
  return segments;
}

std::vector<std::string> TextsOf(const Variant& variant) {
  const graph::Program& base = *variant.bases.front();
  std::vector<std::string> texts;
  for (const std::vector<int>& segment : DecisionsByBlock(variant)) {
    std::string& text = texts.emplace_back();
    for (int d : segment) {
      const Decision& decision = variant.decisions[d];
      text += SignatureOf(base.CallOf(base.nodes()[decision.node]).get()) +
              (decision.recompute ? "r" : "") + (decision.offload ? "o" : "") + ";";
    }
  }
  return texts;
}

BlockShapes::BlockShapes(const Variant& variant, const KeptUse& keep, const CostModel& cost,
                         const SolverOptions& options)
    : cost_(cost),
      search_(options),
      decisions_(variant.decisions.size()),
      segments_(DecisionsByBlock(variant)),
      node_seconds_(cost.NodeSeconds(*variant.bases.front())) {
  GroupBlocks(variant);
  options_.resize(kinds_.size());
  std::vector<int> firsts;
  for (int block = 0; block < blocks(); ++block) {
    bytes_.emplace_back();
    for (int d : segments_[block]) {
      bytes_.back().push_back(variant.copies() * variant.decisions[d].bytes);
    }
    const bool first = kinds_[kind_of_[block]].like == kind_of_[block] && place_of_[block] == 0;
    if (first) firsts.push_back(block);
  }
  ParallelEach(*search_.pool, firsts.size(), [&](size_t i) {
    options_[kind_of_[firsts[i]]] = FindOptions(variant, firsts[i], keep);
  });
  MeasureSides(variant, keep);
  if (!kind_of_.empty()) MeasureShapes(variant, keep);
  // Chains are made only for programs of one micro-step. With several micro-steps, the recomputed
  // results of one micro-step would be kept during the others, but a chain counts these bytes only
  // once.
  if (blocks() > 1 && search_.options >= kThorough && variant.copies() == 1) {
    chains_ = BlockChains(variant, segments_, kind_of_, node_seconds_, keep, cost, options);
  }
}

bool BlockShapes::any_estimate() const {
  const auto of_blocks = [](const Options& of) {
    return std::ranges::any_of(of.options, &BlockOption::IsEstimate);
  };
  return std::ranges::any_of(options_, of_blocks) ||
         std::ranges::any_of(sides_, &BlockOption::IsEstimate, &Side::option);
}

void BlockShapes::GroupBlocks(const Variant& variant) {
  const std::vector<std::string> texts = TextsOf(variant);
  const int blocks = static_cast<int>(texts.size()) - 1;
  std::map<std::string, int> likes;  // maps a text to the first kind with that text
  // Maps a block's text, and whether that block is the first one (1), the last one (2) or neither
  // (0), to the block's kind.
  std::map<std::pair<std::string, int>, int> known;
  for (int block = 0; block < blocks; ++block) {
    const int end = block == 0 ? 1 : block == blocks - 1 ? 2 : 0;
    const auto [found, fresh] =
        known.try_emplace({texts[block], end}, static_cast<int>(kinds_.size()));
    if (fresh) {
      const int like = likes.try_emplace(texts[block], found->second).first->second;
      kinds_.emplace_back().like = like;
    }
    kind_of_.push_back(found->second);
    place_of_.push_back(kinds_[found->second].count++);
  }
}

BlockShapes::Options BlockShapes::FindOptions(const Variant& variant, int block,
                                              const KeptUse& keep) const {
  const auto find = [&](BlockOptionsLimits limits) {
    return FindBlockOptions(*variant.bases.front(), variant.decisions, segments_[block],
                            node_seconds_, limits);
  };
  Options found;
  const auto add_shapes = [&] {
    for (size_t i = found.shape_of.size(); i < found.options.size(); ++i) {
      const Fates shape = ShapeOf(found.options[i], copies_overlap());
      const auto same = std::ranges::find(found.shapes, shape);
      found.shape_of.push_back(static_cast<int>(same - found.shapes.begin()));
      if (same == found.shapes.end()) found.shapes.push_back(shape);
    }
  };
  found.options = find({.options = search_.options, .offload = false, .leaving = false});
  add_shapes();
  found.sums = found.shapes.size();
  std::set<Fates> known;
  const auto add_estimates = [&](const BlockOptionsLimits& limits) {
    for (BlockOption& option : find(limits)) {
      if (!option.IsEstimate() || !known.insert(option.fates).second) continue;
      found.options.push_back(std::move(option));
    }
  };
  const bool away =
      std::ranges::any_of(segments_[block], [&](int d) { return variant.decisions[d].offload; });
  const bool away_in_line = away && !copies_overlap();
  if (search_.options >= kThorough || away_in_line) {
    add_estimates({.options = search_.options / 2, .offload = away_in_line});
  }
  if (away && copies_overlap()) {
    // The number of blocks whose work hides the copies of one block; infinity: all waits for copies
    // are hidden.
    constexpr double kHidden[] = {1, 2, 3, 4, 6, 8, std::numeric_limits<double>::infinity()};
    constexpr int kOptions = 6;
    const double forward =
        keep.programs[0].work[ForwardRegion(block)] / static_cast<double>(variant.micro_steps);
    for (const double hidden : kHidden) {
      add_estimates({.options = kOptions, .hidden_seconds = hidden * forward});
    }
  }
  add_shapes();
  return found;
}

void BlockShapes::Apply(int segment, const Fates& option, Fates& fates) const {
  for (size_t i = 0; i < segments_[segment].size(); ++i) fates[segments_[segment][i]] = option[i];
}

Fates BlockShapes::FatesOf(int side, const std::vector<int>& options) const {
  Fates fates(decisions_, Retention::kSave);
  const int end = blocks();
  Apply(end, sides_[side].option.fates, fates);
  const BlockChains::Chain* chain = nullptr;
  for (int block = 0; block < end; ++block) {
    if (options[block] >= 0) chain = ChainOf(block, options[block]);
    Apply(block,
          chain != nullptr ? chains_.FatesOf(*chain, block)
                           : OptionsOf(block).options[options[block]].fates,
          fates);
  }
  return fates;
}

BlockShapes::Level BlockShapes::LevelOf(int level, int levels) const {
  const auto at = [&](size_t count) {
    return static_cast<int>(static_cast<size_t>(level) * (count - 1) / levels);
  };
  Level made = {
      .side = at(sides_.size()), .shapes = {}, .fates = Fates(decisions_, Retention::kSave)};
  Apply(blocks(), sides_[made.side].option.fates, made.fates);
  for (int block = 0; block < blocks(); ++block) {
    made.shapes.push_back(at(OptionsOf(block).sums));
    Apply(block, OptionsOf(block).shapes[made.shapes.back()], made.fates);
  }
  return made;
}

int64_t BlockShapes::KeptBytes(int block, int shape) const {
  int64_t bytes = 0;
  for (size_t i = 0; i < bytes_[block].size(); ++i) {
    const bool stays = OptionsOf(block).shapes[shape][i] == Retention::kSave;
    bytes += stays ? bytes_[block][i] : 0;
  }
  return bytes;
}

int64_t BlockShapes::AllBytes(int block) const {
  return std::reduce(bytes_[block].begin(), bytes_[block].end());
}

std::vector<int64_t> BlockShapes::DroppedBefore(const std::vector<int>& shapes) const {
  std::vector<int64_t> dropped = {0};
  for (int block = 0; block < blocks(); ++block) {
    dropped.push_back(dropped.back() + AllBytes(block) - KeptBytes(block, shapes[block]));
  }
  return dropped;
}

StepUse BlockShapes::Measure(const Variant& variant, const Fates& fates) const {
  return MeasureStep(variant.build(fates), blocks(), search_.plan.alignment, cost_);
}

void BlockShapes::MeasureSides(const Variant& variant, const KeptUse& keep) {
  const int end = blocks();
  for (BlockOption& option :
       FindBlockOptions(*variant.bases.front(), variant.decisions, segments_[end], node_seconds_,
                        {.options = end > 0 ? kSides : 4 * search_.options})) {
    sides_.emplace_back().option = std::move(option);
  }
  ParallelEach(*search_.pool, sides_.size(), [&](size_t i) {
    Side& side = sides_[i];
    Fates fates = variant.KeepAll();
    Apply(end, side.option.fates, fates);
    const StepUse use = fates == variant.KeepAll() ? StepUse(keep) : Measure(variant, fates);
    side.seconds = use.work() - keep.work();
    for (size_t p = 0; p < use.programs.size(); ++p) {
      side.extra.emplace_back();
      for (size_t r = 0; r < use.programs[p].peaks.size(); ++r) {
        side.extra.back().push_back(use.programs[p].peaks[r] - keep.programs[p].peaks[r]);
      }
    }
  });
}

// The shape of a block in a measured program, as an index among the shapes whose costs are sums.
// The index rises with the blocks of a kind, and from program to program, so that neighbouring
// blocks are treated alike, or nearly.
int BlockShapes::SumIn(int block, size_t program, size_t programs) const {
  const auto count = static_cast<size_t>(kinds_[kind_of_[block]].count),
             place = static_cast<size_t>(place_of_[block]);
  return static_cast<int>((place + program * count) * OptionsOf(block).sums / (count * programs));
}

void BlockShapes::MeasureShapes(const Variant& variant, const KeptUse& keep) {
  const int end = blocks();
  size_t sums = 0, others = 0;  // numbers of programs whose blocks take shapes with a sum as cost,
                                // and of other programs
  for (Kind& kind : kinds_) {
    const Options& options = options_[kind.like];
    kind.changes.resize(options.shapes.size());
    sums = std::max(sums, options.sums);
    others = std::max(others, options.shapes.size() - options.sums);
  }
  measured_.resize(sums + others);
  std::vector<std::vector<int>> shapes(measured_.size());
  // The first program keeps the fewest bytes, inside and outside the blocks.
  const auto side_of = [&](size_t p) {
    return static_cast<int>(p < sums ? p * sides_.size() / sums : sides_.size() - 1);
  };
  ParallelEach(*search_.pool, measured_.size(), [&](size_t p) {
    Fates fates = variant.KeepAll();
    Apply(end, sides_[side_of(p)].option.fates, fates);
    for (int block = 0; block < end; ++block) {
      const Options& options = OptionsOf(block);
      const size_t other = p - sums + options.sums;
      shapes[p].push_back(p < sums                        ? SumIn(block, p, sums)
                          : other < options.shapes.size() ? static_cast<int>(other)
                                                          : static_cast<int>(options.sums) - 1);
      Apply(block, options.shapes[shapes[p].back()], fates);
    }
    measured_[p].use = Measure(variant, fates);
    measured_[p].fates = std::move(fates);
  });
  for (size_t p = 0; p < measured_.size(); ++p)
    Record(keep, measured_[p].use, shapes[p], side_of(p));
}

void BlockShapes::Record(const StepUse& keep, const StepUse& use, const std::vector<int>& shapes,
                         int side) {
  const int end = blocks();
  const std::vector<int64_t> dropped = DroppedBefore(shapes);
  // Shapes whose cost is a sum rank from 0 (keeps least) to 1; all other shapes rank higher than 1.
  const auto rank = [&](int block) {
    const auto sums = static_cast<double>(OptionsOf(block).sums);
    return sums > 1 ? shapes[block] / (sums - 1) : 1.0 + shapes[block];
  };
  for (int block = 0; block < end; ++block) {
    Change& change = kinds_[kind_of_[block]].changes[shapes[block]];
    double unlike = 0;
    if (block > 0) unlike += std::abs(rank(block - 1) - rank(block));
    if (block + 1 < end) unlike += std::abs(rank(block + 1) - rank(block));
    if (change.unlike <= unlike) continue;
    const auto differ = [&](int region, int before) {
      std::vector<int64_t> by_program;
      for (size_t p = 0; p < use.programs.size(); ++p) {
        by_program.push_back(use.programs[p].peaks[region] + dropped[before] -
                             keep.programs[p].peaks[region] - sides_[side].extra[p][region]);
      }
      return by_program;
    };
    const int forward = ForwardRegion(block), backward = BackwardRegion(end, block);
    change = {.seconds =
                  use.work(forward) + use.work(backward) - keep.work(forward) - keep.work(backward),
              .forward = differ(forward, block),
              .backward = differ(backward, block),
              .head = differ(HeadRegion(end), end),
              .start = differ(0, 0),
              .update = differ(UpdateRegion(end), 0),
              .unlike = unlike};
  }
}

}  // namespace plimsoll::memory

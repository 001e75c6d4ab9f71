#include "parallel/stage_map.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "base/amounts.h"
#include "base/error.h"
#include "graph/block.h"
#include "graph/tensor_ids.h"
#include "graph/verifier.h"

namespace plimsoll::parallel {

using graph::Node;
using graph::Phase;
using graph::Program;
using graph::Role;
using graph::Tensor;
using graph::TensorId;

class StageMap::Finder {
 public:
  Finder(StageMap& map, std::span<const int64_t> blocks)
      : map_(map), program_(map.program_), blocks_(program_), crossing_(map.cuts_.size()) {
    FindStagesOfBlocks(blocks);
  }

  void Run() {
    const std::vector<Node>& nodes = program_.nodes();
    for (size_t n = 0; n < nodes.size(); ++n) {
      const int64_t stage = nodes[n].phase == Phase::kUpdate ? OfUpdate(n) : OfPass(n);
      map_.of_nodes_[n] = stage;
      if (nodes[n].phase != Phase::kUpdate && stage >= 0) TakeCarried(n, stage);
      for (const TensorId id : graph::Present(nodes[n].outputs)) SetWriter(id, n, stage);
    }
    for (size_t n = 0; n < nodes.size(); ++n) FindCrossing(n);
    for (size_t cut = 0; cut < crossing_.size(); ++cut) CheckCut(cut);
  }

 private:
  struct Crossing {
    std::set<TensorId> forward, backward;
  };

  void FindStagesOfBlocks(std::span<const int64_t> blocks) {
    const int64_t count = std::accumulate(blocks.begin(), blocks.end(), int64_t{0});
    if (count != blocks_.count()) {
      throw UserError(fmt::format("stages of {} blocks are {}, but the model has {}",
                                  fmt::join(blocks, ", "), Counted(count, "block"),
                                  blocks_.count()));
    }
    for (size_t stage = 0; stage < blocks.size(); ++stage) {
      of_blocks_.insert(of_blocks_.end(), static_cast<size_t>(blocks[stage]),
                        static_cast<int64_t>(stage));
    }
  }

  int64_t& At(TensorId id) { return map_.of_tensors_[static_cast<size_t>(program_.Root(id))]; }
  bool IsCarried(TensorId id) const { return program_.tensor(program_.Root(id)).persistent; }
  bool IsParameter(TensorId id) const {
    return program_.tensor(program_.Root(id)).role == Role::kParameter;
  }

  // The stage of a node in the forward or the backward pass. A node outside all blocks belongs to
  // the latest stage (in the pass's direction) whose results it reads: the results of earlier
  // stages are sent there.
  int64_t OfPass(size_t n) {
    const Node& node = program_.nodes()[n];
    if (const int block = blocks_.Of(n); block != graph::kNoBlock) {
      const bool carried = std::ranges::all_of(graph::Present(node.inputs),
                                               [&](TensorId id) { return IsCarried(id); });
      return node.op->view && carried ? kFree : of_blocks_[static_cast<size_t>(block)];
    }
    const bool forward = node.phase == Phase::kForward;
    int64_t stage = kFree;
    bool reads_parameter = false;
    for (const TensorId id : graph::Present(node.inputs)) {
      reads_parameter = reads_parameter || IsParameter(id);
      const int64_t of = IsCarried(id) ? kFree : At(id);
      if (of < 0) continue;
      if (stage < 0 || (forward ? of > stage : of < stage)) stage = of;
    }
    if (stage >= 0 || node.op->view) return stage;
    if (reads_parameter) return 0;
    // A node that reads none of these results reads a gradient that micro-steps carry.
    for (const TensorId id : graph::Present(node.inputs)) {
      if (At(id) >= 0) return At(id);
    }
    return stage;
  }

  static bool IsOfStage(const Tensor& tensor) {
    return tensor.persistent &&
           (tensor.role == Role::kParameter || tensor.role == Role::kGradient ||
            tensor.role == Role::kPending || tensor.role == Role::kMetric);
  }

  // Whether the first and the last stage may both have a tensor of this role.
  static bool IsOfTable(const Tensor& tensor) {
    return tensor.role == Role::kParameter || tensor.role == Role::kGradient;
  }

  // Assigns the carried tensors of a node to the stage that uses them. Other state, such as the
  // loss scale, belongs to all stages.
  void TakeCarried(size_t n, int64_t stage) {
    const Node& node = program_.nodes()[n];
    for (const std::vector<TensorId>* ids : {&node.inputs, &node.outputs}) {
      for (const TensorId id : graph::Present(*ids)) {
        const Tensor& tensor = program_.tensor(program_.Root(id));
        if (!IsOfStage(tensor)) continue;
        int64_t& home = At(id);
        if (home == kEnds && map_.IsEnd(stage)) continue;
        if (home >= 0 && home != stage && IsOfTable(tensor) && map_.IsEnd(home) &&
            map_.IsEnd(stage)) {
          home = kEnds;
          continue;
        }
        if (home != kAll && home != stage) {
          const int64_t other = home == kEnds ? 0 : home;
          throw UserError(fmt::format("stages {} and {} share '{}': {} is on the second",
                                      std::min(other, stage), std::max(other, stage), tensor.name,
                                      graph::Describe(program_, n)));
        }
        home = stage;
      }
    }
  }

  void SetWriter(TensorId id, size_t n, int64_t stage) {
    if (IsCarried(id) || program_.nodes()[n].op->view) return;
    At(id) = stage;
    if (program_.nodes()[n].phase == Phase::kBackward) {
      backward_.insert(program_.Root(id));
    }
  }

  static bool IsHome(int64_t stage) { return stage >= 0 || stage == kEnds; }

  // The stage of a tensor, or else the stage of its nearest owner that has a stage; kAll if no
  // owner has a stage.
  int64_t HomeOf(TensorId id) {
    TensorId at = program_.Root(id);
    while (!IsHome(At(at))) {
      const std::optional<graph::Owner>& owner = program_.tensor(at).owner;
      const TensorId next = owner ? program_.Find(owner->name) : graph::kNoTensor;
      if (next == graph::kNoTensor) return kAll;
      at = program_.Root(next);
    }
    return At(at);
  }

  // The stage of a node of the update. Metrics do not determine this stage: all stages have the
  // metrics.
  int64_t OfUpdate(size_t n) {
    const Node& node = program_.nodes()[n];
    std::set<int64_t> stages;
    for (const std::vector<TensorId>* ids : {&node.inputs, &node.outputs}) {
      for (const TensorId id : graph::Present(*ids)) {
        if (program_.tensor(program_.Root(id)).role == Role::kMetric) continue;
        if (const int64_t stage = HomeOf(id); IsHome(stage)) stages.insert(stage);
      }
    }
    if (stages.empty()) return kAll;
    if (stages.size() == 1) return Owned(n, *stages.begin());
    if (node.op->name != "global_norm") {
      if (stages.erase(kEnds) > 0) stages.insert({0, map_.stages_ - 1});
      throw UserError(fmt::format("{} needs what stages {} have", graph::Describe(program_, n),
                                  fmt::join(stages, ", ")));
    }
    map_.joins_[n] = true;
    return kAll;
  }

  // Assigns carried tensors that only the update writes, such as moments, to the stage.
  int64_t Owned(size_t n, int64_t stage) {
    for (const TensorId id : graph::Present(program_.nodes()[n].outputs)) {
      if (IsCarried(id) && program_.tensor(program_.Root(id)).owner && At(id) < 0) At(id) = stage;
    }
    return stage;
  }

  void FindCrossing(size_t n) {
    const int64_t to = map_.of_nodes_[n];
    if (to == kFree || map_.joins_[n]) return;
    for (const TensorId id : graph::Present(program_.nodes()[n].inputs)) {
      if (IsCarried(id)) continue;
      const int64_t from = At(id);
      if (from < 0 || from == to) continue;
      const bool backward = backward_.contains(program_.Root(id));
      const bool neighbours = backward ? from == to + 1 : from + 1 == to;
      if (to < 0 || !neighbours || program_.nodes()[n].phase == Phase::kUpdate) {
        throw UserError(fmt::format("{} needs '{}' of stage {}", graph::Describe(program_, n),
                                    program_.tensor(id).name, from));
      }
      Crossing& cut = crossing_[static_cast<size_t>(std::min(from, to))];
      (backward ? cut.backward : cut.forward).insert(id);
    }
  }

  TensorId Only(const std::set<TensorId>& ids, size_t cut, std::string_view what) const {
    if (ids.empty()) return graph::kNoTensor;
    std::vector<std::string> names;
    for (const TensorId id : ids) names.push_back("'" + program_.tensor(id).name + "'");
    if (ids.size() > 1) {
      throw UserError(fmt::format("the cut between stages {} and {} crosses more than one {}: {}",
                                  cut, cut + 1, what, fmt::join(names, ", ")));
    }
    if (program_.tensor(*ids.begin()).alias) {
      throw UserError(fmt::format("the cut between stages {} and {} crosses {}, a view", cut,
                                  cut + 1, names.front()));
    }
    return *ids.begin();
  }

  void CheckCut(size_t cut) {
    StageCut& found = map_.cuts_[cut];
    found.forward = Only(crossing_[cut].forward, cut, "activation");
    found.backward = Only(crossing_[cut].backward, cut, "gradient");
    if (found.forward == graph::kNoTensor) {
      throw UserError(
          fmt::format("stage {} reads nothing that stage {} has computed", cut + 1, cut));
    }
    const bool trains = std::ranges::any_of(
        program_.nodes(), [](const Node& node) { return node.phase == Phase::kBackward; });
    if (trains && found.backward == graph::kNoTensor) {
      throw UserError(fmt::format("no parameter is trained up to stage {}", cut));
    }
  }

  StageMap& map_;
  const Program& program_;
  const graph::Blocks blocks_;
  std::vector<int64_t> of_blocks_;
  std::set<TensorId> backward_;  // temporaries that the backward pass writes
  std::vector<Crossing> crossing_;
};

StageMap::StageMap(const Program& program, std::span<const int64_t> blocks)
    : program_(program),
      stages_(std::ssize(blocks)),
      of_nodes_(program.nodes().size(), kFree),
      of_tensors_(program.tensors().size(), kAll),
      joins_(program.nodes().size(), false),
      cuts_(blocks.empty() ? 0 : blocks.size() - 1) {
  Finder(*this, blocks).Run();
}

int64_t StageMap::OfTensor(TensorId id) const {
  return of_tensors_[static_cast<size_t>(program_.Root(id))];
}

std::vector<TensorId> StageMap::OfEnds(Role role) const {
  std::vector<TensorId> found;
  for (const TensorId id : graph::TensorIds(program_)) {
    const Tensor& tensor = program_.tensor(id);
    if (tensor.role != role || !tensor.persistent || tensor.alias) continue;
    if (OfTensor(id) == kEnds) found.push_back(id);
  }
  return found;
}

std::vector<bool> StageMap::NodesOf(int64_t stage) const {
  const std::vector<Node>& nodes = program_.nodes();
  std::vector<bool> runs(nodes.size(), false), read(program_.tensors().size(), false);
  const auto mark = [&](TensorId id) {
    for (; id != graph::kNoTensor && !read[static_cast<size_t>(id)];) {
      read[static_cast<size_t>(id)] = true;
      const std::optional<graph::Alias>& alias = program_.tensor(id).alias;
      id = alias ? alias->base : graph::kNoTensor;
    }
  };
  // Nodes of an update write through views, which kFree nodes make.
  const auto mark_all = [&](const Node& node) {
    for (const TensorId id : node.inputs) mark(id);
    for (const TensorId id : node.outputs) mark(id);
  };
  for (size_t n = 0; n < nodes.size(); ++n) {
    runs[n] =
        of_nodes_[n] == stage || of_nodes_[n] == kAll || (of_nodes_[n] == kEnds && IsEnd(stage));
    if (runs[n] && nodes[n].phase == Phase::kUpdate && !joins_[n]) mark_all(nodes[n]);
  }
  for (size_t n = nodes.size(); n-- > 0;) {
    const Node& node = nodes[n];
    if (of_nodes_[n] == kFree) {
      runs[n] = std::ranges::any_of(graph::Present(node.outputs),
                                    [&](TensorId id) { return read[static_cast<size_t>(id)]; });
    }
    if (!runs[n]) continue;
    for (const TensorId id : node.inputs) {
      const bool own = id == graph::kNoTensor || !joins_[n] || Counting(id) == stage;
      if (own) mark(id);
    }
  }
  return runs;
}

}  // namespace plimsoll::parallel

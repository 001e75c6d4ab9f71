#include "memory/step_use.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "graph/block.h"
#include "graph/phase_cut.h"
#include "memory/lifetimes.h"

namespace plimsoll::memory {
namespace {

using graph::Node;
using graph::Phase;
using graph::Program;

// Whether the node starts or ends a copy to the host or back.
bool IsCopy(const Node& node) { return graph::IsCopy(node.op->transfer); }

// The region of each node. A recomputed node is in the region of the backward node that needs it.
std::vector<int> Regions(const Program& program, const graph::Blocks& known, int blocks) {
  const std::vector<Node>& nodes = program.nodes();
  std::vector<int> regions(nodes.size(), 0);
  int region = 0;
  bool last = false;  // the last block's forward pass has begun
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].phase != Phase::kForward) continue;
    const int block = known.Of(n);
    if (block >= 0 && block < blocks) {
      last = last || block == blocks - 1;
      // Updates of running statistics follow the head, while everything that blocks keep is alive.
      const bool after = last && region == HeadRegion(blocks) && !IsCopy(nodes[n]);
      if (!after) region = ForwardRegion(block);
    } else if (region > 0) {
      region = HeadRegion(blocks);
    }
    regions[n] = region;
  }
  // Visits nodes backwards, so that a node outside any block joins the region of the nodes after
  // it.
  region = UpdateRegion(blocks);
  int last_block = -1;
  bool before_forward = false;
  for (size_t n = nodes.size(); n-- > 0;) {
    if (nodes[n].phase == Phase::kForward) {
      before_forward = true;
      continue;
    }
    if (before_forward && nodes[n].micro_step != nodes.back().micro_step) break;
    const int block = known.Of(n);
    if (nodes[n].phase == Phase::kBackward) {
      if (block >= 0 && block < blocks) {
        region = BackwardRegion(blocks, block);
        last_block = block;
      } else {
        region = last_block < 0 ? UpdateRegion(blocks) : HeadRegion(blocks);
      }
    }
    regions[n] = region;
  }
  return regions;
}

// The region in which a node's seconds count. A node that is recomputed or gathered again may start
// early, during an earlier backward pass of another block, but its seconds are caused by its own
// block's option.
int RegionOfSeconds(const Node& node, int block, int region, int blocks) {
  const bool again = node.phase == Phase::kRecompute && block >= 0 && block < blocks;
  return again ? BackwardRegion(blocks, block) : region;
}

// The live bytes of a program with slots, as if the bytes that a slot keeps were free after its
// backward pass has read them. In truth only other slots can reuse these bytes. But with this count
// the live bytes stay a sum over blocks and a lower bound. Most bytes are alive before the last
// block's backward pass, where both counts are equal.
std::vector<int64_t> LiveInSlots(const Program& program, int64_t slots, int64_t alignment) {
  const Lifetimes whole = ComputeLifetimes(program);
  Program apart = program;
  const std::vector<graph::TensorId> kept = graph::KeptForBackward(program);
  for (const graph::TensorId id : kept) apart.mutable_tensor(id).persistent = true;
  std::vector<int64_t> live =
      LiveBytes(ComputeLifetimes(apart), graph::Place::kDevice, program.nodes().size(), alignment);
  for (const graph::TensorId id : kept) {
    const auto at = static_cast<size_t>(id);
    const int64_t bytes = slots * RoundUp(program.tensor(id).bytes(), alignment);
    for (int32_t n = whole.first_use[at]; n <= whole.last_use[at]; ++n) live[n] += bytes;
  }
  return live;
}

ProgramUse MeasureProgram(const StepProgram& part, int blocks, int64_t alignment,
                          std::span<const double> node_seconds, const CostModel& cost) {
  const Program& program = *part.program;
  const bool copies = std::ranges::any_of(program.nodes(), IsCopy);
  const std::vector<int64_t> live =
      part.slots > 0 ? LiveInSlots(program, part.slots, alignment)
                     : LiveBytes(ComputeLifetimes(program), graph::Place::kDevice,
                                 program.nodes().size(), alignment);
  ProgramUse use;
  use.peaks.resize(RegionCount(blocks), 0);
  use.ends.resize(RegionCount(blocks), 0);
  use.again.resize(blocks, 0);
  use.seconds.resize(RegionCount(blocks), 0);
  use.work.resize(RegionCount(blocks), 0);
  const graph::Blocks known(program);
  const std::vector<int> regions = Regions(program, known, blocks);
  for (size_t n = 0; n < regions.size(); ++n) {
    use.peaks[regions[n]] = std::max(use.peaks[regions[n]], live[n]);
    use.ends[regions[n]] = live[n];
    const Node& node = program.nodes()[n];
    const int block = known.Of(n), region = RegionOfSeconds(node, block, regions[n], blocks);
    if (node.phase == Phase::kRecompute && block >= 0 && block < blocks) {
      use.again[block] = std::max(use.again[block], live[n]);
    }
    use.seconds[region] += node_seconds[n];
    const bool beside = cost.rates().copies_overlap() && IsCopy(node);
    if (beside || node_seconds[n] == 0) continue;
    use.work[region] += copies ? cost.Seconds(program.CallOf(node).get()) : node_seconds[n];
  }
  return use;
}

}  // namespace

int64_t StepUse::peak() const {
  int64_t peak = 0;
  for (const ProgramUse& use : programs) peak = std::max(peak, std::ranges::max(use.peaks));
  return peak;
}

double StepUse::seconds() const {
  double total = 0;
  for (size_t p = 0; p < programs.size(); ++p) {
    const std::vector<double>& seconds = programs[p].seconds;
    total += static_cast<double>(times[p]) * std::reduce(seconds.begin(), seconds.end());
  }
  return total;
}

double StepUse::work(int region) const {
  double total = 0;
  for (size_t p = 0; p < programs.size(); ++p) {
    total += static_cast<double>(times[p]) * programs[p].work[region];
  }
  return total;
}

double StepUse::work() const {
  double total = 0;
  for (size_t r = 0; r < programs.front().work.size(); ++r) total += work(static_cast<int>(r));
  return total;
}

StepUse MeasureStep(const std::vector<StepProgram>& step, int blocks, int64_t alignment,
                    const CostModel& cost) {
  StepUse measured;
  for (const StepProgram& part : step) {
    const graph::Program& program = *part.program;
    const std::vector<double> seconds = part.times > 0
                                            ? cost.NodeSeconds(program)
                                            : std::vector<double>(program.nodes().size(), 0.0);
    measured.programs.push_back(MeasureProgram(part, blocks, alignment, seconds, cost));
    measured.times.push_back(part.times);
    measured.nodes += static_cast<int64_t>(program.nodes().size());
    measured.copies = measured.copies || std::ranges::any_of(program.nodes(), IsCopy);
  }
  return measured;
}

int64_t PersistentBytes(const std::vector<StepProgram>& step, graph::Place place,
                        int64_t alignment) {
  std::set<std::string_view> counted;
  int64_t bytes = 0;
  for (const StepProgram& part : step) {
    for (const graph::Tensor& tensor : part.program->tensors()) {
      const bool own = tensor.persistent && !tensor.alias && tensor.place == place;
      if (!own || !counted.insert(tensor.name).second) continue;
      bytes += RoundUp(tensor.bytes(), alignment);
    }
  }
  return bytes;
}

KeptUse MeasureKept(const Variant& variant, int64_t alignment, const CostModel& cost) {
  const std::vector<StepProgram> step = variant.build(variant.KeepAll());
  KeptUse kept = {MeasureStep(step, variant.blocks(), alignment, cost)};
  kept.device_bytes = PersistentBytes(step, graph::Place::kDevice, alignment) +
                      (variant.slots - 1) * variant.slot_bytes;
  kept.host_bytes = PersistentBytes(step, graph::Place::kHost, alignment);
  kept.micro_steps =
      static_cast<double>(std::reduce(kept.times.begin(), kept.times.end()) * variant.micro_steps);
  return kept;
}

}  // namespace plimsoll::memory

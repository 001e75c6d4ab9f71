#include "memory/measured_step.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace plimsoll::memory {

using graph::Retention;

int64_t MeasuredStep::peak() const {
  int64_t peak = 0;
  for (const RegionUse& use : uses) peak = std::max(peak, std::ranges::max(use.peaks));
  return peak;
}

double MeasuredStep::seconds(int region) const {
  double total = 0;
  for (size_t p = 0; p < uses.size(); ++p) {
    total += static_cast<double>(times[p]) * uses[p].seconds[region];
  }
  return total;
}

double MeasuredStep::seconds() const {
  double total = 0;
  for (size_t r = 0; r < uses.front().seconds.size(); ++r) total += seconds(static_cast<int>(r));
  return total;
}

MeasuredStep MeasureStep(const std::vector<StepProgram>& step, int blocks, int64_t alignment,
                         const CostModel& cost) {
  MeasuredStep measured;
  for (const StepProgram& part : step) {
    const graph::Program& program = *part.program;
    const std::vector<double> seconds = part.times > 0
                                            ? cost.NodeSeconds(program)
                                            : std::vector<double>(program.nodes().size(), 0.0);
    measured.uses.push_back(MeasureRegions(program, blocks, alignment, seconds));
    measured.times.push_back(part.times);
    measured.nodes += static_cast<int64_t>(program.nodes().size());
    measured.copies =
        measured.copies || std::ranges::any_of(program.nodes(), [](const graph::Node& node) {
          return node.op->transfer == graph::Transfer::kCopyStart;
        });
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
      bytes += (tensor.bytes() + alignment - 1) / alignment * alignment;
    }
  }
  return bytes;
}

bool Offloads(const Assignment& assignment) {
  return std::ranges::find(assignment, Retention::kOffload) != assignment.end();
}

int64_t OffloadedBytes(const Variant& variant, const Assignment& assignment) {
  int64_t bytes = 0;
  for (size_t d = 0; d < variant.decisions.size(); ++d) {
    if (assignment[d] == Retention::kOffload) bytes += variant.decisions[d].bytes;
  }
  return bytes;
}

Assignment KeepAll(const Variant& variant) {
  return Assignment(variant.decisions.size(), Retention::kSave);
}

}  // namespace plimsoll::memory

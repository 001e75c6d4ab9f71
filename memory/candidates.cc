#include "memory/candidates.h"

#include "memory/measured_step.h"
#include "memory/objectives_search.h"
#include "memory/variant_search.h"

namespace plimsoll::memory {
namespace {

// To keep everything is the fastest, or nearly so: a norm that is computed again within the kernel
// of its gradient, or a copy that has more to hide behind, may be worth a little.
constexpr double kFasterThanKeeping = 0.005;

}  // namespace

VariantBounds BoundsOf(const Variant& variant, const CostModel& cost,
                       const SolverOptions& options) {
  const std::vector<StepProgram> step = variant.realize(KeepAll(variant));
  VariantBounds bounds;
  for (const StepProgram& part : step) {
    if (part.times == 0) continue;
    bounds.seconds += static_cast<double>(part.times) * cost.ProgramSeconds(*part.program);
  }
  bounds.seconds *= 1 - kFasterThanKeeping;
  bounds.device_bytes = PersistentBytes(step, graph::Place::kDevice, options.plan.alignment);
  bounds.host_bytes = PersistentBytes(step, graph::Place::kHost, options.plan.alignment);
  if (options.one_memory) bounds.device_bytes += bounds.host_bytes;
  return bounds;
}

std::vector<Candidate> FindCandidates(const Variant& variant, size_t index, const CostModel& cost,
                                      const SolverOptions& options) {
  if (variant.bases.size() > 1) return SearchObjectives(variant, index, cost, options);
  return SearchVariant(variant, index, cost, options);
}

}  // namespace plimsoll::memory

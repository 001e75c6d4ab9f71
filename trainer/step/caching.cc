#include "trainer/step/caching.h"

namespace plimsoll::trainer {

std::vector<memory::ProgramRuns> Round(const CompiledStep& compiled) {
  const StepPrograms& step = compiled.step;
  std::vector<memory::ProgramRuns> round;
  for (const StepEntry& entry : step.entries) round.push_back({entry.program, entry.times});
  for (int program : step.evaluations) round.push_back({program});
  for (int program : {step.prefill, step.decode, step.logits}) {
    if (program >= 0) round.push_back({program});
  }
  return round;
}

std::vector<const graph::Program*> Programs(const CompiledStep& compiled) {
  std::vector<const graph::Program*> programs;
  for (const auto& program : compiled.programs) programs.push_back(program.get());
  return programs;
}

memory::ReplayResult Replay(const CompiledStep& compiled, const CachingOptions& options) {
  return memory::ReplayCaching(Programs(compiled), compiled.plan, Round(compiled), options);
}

}  // namespace plimsoll::trainer

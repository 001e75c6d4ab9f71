#include "trainer/record/memory_summary.h"

#include "memory/report.h"
#include "trainer/step/caching.h"

namespace plimsoll::trainer {
namespace {

std::vector<std::vector<double>> NodeSeconds(Session& session, int64_t steps) {
  const StepPrograms& step = session.compiled().step;
  std::vector<std::vector<double>> seconds;
  bool measured = false;
  for (int p = 0; p < static_cast<int>(session.compiled().programs.size()); ++p) {
    std::vector<double>& of_program = seconds.emplace_back();
    for (int64_t nanoseconds : session.executor(p).node_nanoseconds()) {
      const bool counts = step.Runs(p) && steps > 0;
      of_program.push_back(
          counts ? 1e-9 * static_cast<double>(nanoseconds) / static_cast<double>(steps) : 0);
      measured = measured || of_program.back() > 0;
    }
  }
  if (!measured) seconds.clear();
  return seconds;
}

}  // namespace

std::string MemorySummary(Session& session, int64_t steps, bool by_time) {
  const CompiledStep& compiled = session.compiled();
  const std::vector<const graph::Program*> programs = Programs(compiled);
  memory::MemoryFacts facts{.programs = programs, .plan = compiled.plan};
  facts.node_seconds = NodeSeconds(session, steps);
  facts.by_time = by_time;
  if (const runtime::CachingMemory* caching = session.caching()) {
    facts.caching = {caching->stats(), caching->host_stats()};
    facts.used = true;
  } else {
    facts.caching = Replay(compiled);
  }
  return memory::RunSummary(facts);
}

}  // namespace plimsoll::trainer

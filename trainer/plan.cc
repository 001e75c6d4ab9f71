#include "trainer/plan.h"

#include <fmt/format.h>

#include "memory/report.h"
#include "trainer/from_config.h"
#include "trainer/plan_json.h"
#include "trainer/progress.h"

namespace plimsoll::trainer {

void PrintPlan(const config::Loaded& loaded, bool json) {
  const config::RunConfig& config = loaded.config;
  const std::unique_ptr<models::Model> model = ModelFrom(config);
  const CompiledStep compiled = Compile(*model, CompileFrom(config, *model));
  if (json) {
    fmt::print("{}", PlanJson(*model, compiled));
    return;
  }
  const CompileOptions& options = compiled.options;
  fmt::print("{}: {} parameters; {} sequences of {} tokens per micro-step, {} micro-steps a step\n",
             config.file, FormatCount(static_cast<double>(model->parameter_count())),
             options.micro_batch, options.sequence, options.accumulate);
  for (const graph::PassReport& report : compiled.passes) {
    if (!report.result.changed) continue;
    fmt::print("  {:<14} {:<12} {}\n", report.program, report.pass, report.result.summary);
  }
  fmt::print("{}", memory::Report(compiled.plan));
  const double tokens =
      static_cast<double>(options.micro_batch * options.sequence * options.accumulate);
  fmt::print("FLOPs a step: {}  (of the model alone: {})\n", FormatCount(compiled.flops_per_step),
             FormatCount(model->TrainFlopsPerToken(options.sequence) * tokens));
}

}  // namespace plimsoll::trainer

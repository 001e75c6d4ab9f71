// The calls of a training step on a GPU, by built-in rates, without a GPU: what bench/rates.py fits
// rates to and sums predictions of.
//
//   step_calls RUN.yaml [--device h200] [--set KEY=VALUE …]
//
// A JSON object: the predicted milliseconds of the step, and for each distinct call its signature
// (memory/cost_model.h), kind of rates (memory/kind_rates.h), class, how often the step makes
// it, FLOPs and bytes as kernels do them, and microseconds of one by built-in rates. Calls that
// take no time on their own, views and transfers, are left out.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "memory/cost_model.h"
#include "memory/kind_rates.h"
#include "trainer/plan/load_planned.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/resolved_run.h"
#include "trainer/resolve/run_costs.h"
#include "trainer/step/compile.h"

namespace plimsoll {
namespace {

using graph::CostClass;
using nlohmann::ordered_json;

const char* Name(CostClass cost_class) {
  if (cost_class == CostClass::kBandwidth) return "bandwidth";
  return cost_class == CostClass::kProducts ? "products" : "attention";
}

ordered_json CallJson(const graph::OpCall& call, const memory::CostModel& cost) {
  const memory::RateKind kind = memory::RateKindOf(call);
  const graph::Cost work = memory::KernelWork(call);
  return {{"op", kind.op},
          {"numbers", kind.numbers},
          {"form", kind.form},
          {"class", Name(call.op.cost_class)},
          {"shares_launches", call.op.shares_launches},
          {"times", 0},
          {"flops", work.flops},
          {"bytes", work.bytes},
          {"predicted_us", 1e6 * cost.Seconds(call)}};
}

void Run(const trainer::PlanCommand& command) {
  const config::RunConfig config = trainer::LoadPlanned(command, {}, 1).config;
  const auto model = trainer::ModelFrom(config);
  const trainer::ResolvedRun resolved = trainer::ResolveRun(config, *model);
  const trainer::CompiledStep compiled = trainer::Compile(*model, resolved.options);
  const memory::CostModel cost = trainer::BuiltInCost(resolved.config);
  std::map<std::string, ordered_json> calls;
  for (const trainer::StepEntry& entry : compiled.step.entries) {
    const graph::Program& program = *compiled.programs[entry.program];
    for (const graph::Node& node : program.nodes()) {
      if (node.op->view || node.op->transfer != graph::Transfer::kNone) continue;
      const graph::Program::Call call = program.CallOf(node);
      const auto [found, fresh] = calls.try_emplace(memory::SignatureOf(call.get()));
      if (fresh) found->second = CallJson(call.get(), cost);
      ordered_json& times = found->second["times"];
      times = times.get<int64_t>() + entry.times;
    }
  }
  fmt::print("{}\n", ordered_json{{"predicted_ms", 1e3 * trainer::PredictSeconds(compiled, cost)},
                                  {"calls", calls}}
                         .dump());
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  CLI::App app("The calls of a training step");
  plimsoll::trainer::PlanCommand command;
  command.device = "h200";
  app.add_option("file", command.file)->required();
  app.add_option("--device", command.device)->capture_default_str();
  app.add_option("--set", command.sets)->allow_extra_args(false);
  CLI11_PARSE(app, argc, argv);
  try {
    plimsoll::Run(command);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

// Prices the plans of another build: of every budget of its front (`plimsoll plan --sweep N
// --json`) its plan, as a point of this build's space, and the plan that this build chooses, both
// by the same cost model and planner.
//
//   price_front RUN.yaml FRONT.json [--device h200] [--set KEY=VALUE …]
//
// A line of JSON per budget: its bytes, the milliseconds of both, the bytes of both, and what the
// other build thought that its plan takes. bench/compare_fronts.py does it for all of configs/.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "memory/plan.h"
#include "trainer/plan/load_planned.h"
#include "trainer/resolve/channels.h"
#include "trainer/resolve/knobs.h"
#include "trainer/resolve/run_budget.h"
#include "trainer/resolve/step_solver.h"

namespace plimsoll {
namespace {

using nlohmann::json;

struct Priced {
  double seconds = 0;
  int64_t arena_bytes = 0, host_arena_bytes = 0;
};

// Of the plan that a row of another build's front decides.
Priced Price(trainer::StepSolver& solver, const json& row) {
  memory::Solver& all = solver.solver();
  for (size_t v = 0; v < all.variants(); ++v) {
    if (json(trainer::ChoicesJson(solver.config(), solver.ConfigOf(v))) != row.at("choices"))
      continue;
    const memory::Variant& variant = all.variant(v);
    memory::Fates fates = variant.KeepAll();
    size_t named = 0, found = 0;
    for (const auto& [objective, by_fate] : row.at("fates").items()) {
      for (const auto& [fate, tensors] : by_fate.items()) {
        for (const auto& name : tensors) {
          const auto tensor = name.get<std::string>();
          ++named;
          for (size_t d = 0; d < fates.size(); ++d) {
            const auto& own = variant.decisions[d].tensors;
            if (std::ranges::find(own, tensor) == own.end()) continue;
            fates[d] = *graph::ParseRetention(fate);
            ++found;
          }
        }
      }
    }
    if (named != found)
      throw UserError("the point names tensors that this build doesn't decide about");
    const std::vector<memory::StepProgram> step = variant.build(fates);
    Priced priced;
    std::vector<const graph::Program*> programs;
    for (const memory::StepProgram& part : step) {
      programs.push_back(part.program.get());
      priced.seconds +=
          static_cast<double>(part.times) * solver.cost().ProgramSeconds(*part.program);
    }
    const memory::MemoryPlan plan = memory::MakePlan(programs, solver.plan_options());
    priced.arena_bytes = plan.arena_bytes;
    priced.host_arena_bytes = plan.host_arena_bytes;
    return priced;
  }
  throw UserError("no variant of this build makes the choices " + row.at("choices").dump());
}

void Run(const trainer::PlanCommand& command, const std::string& front) {
  config::Loaded loaded = trainer::LoadPlanned(command, {}, 1);
  trainer::ChooseChannels(loaded.config);
  trainer::StepSolver solver(loaded.config);
  const memory::Budget lines = trainer::BudgetOf(loaded.config);
  std::ifstream file(front);
  const json sweep = json::parse(file);
  for (const json& row : sweep.at("front")) {
    const int64_t budget = row.at("budget_bytes");
    const Priced old = Price(solver, row);
    const memory::Candidate* own =
        solver.solver().Fastest({lines.profile.ArenaWithin(budget), lines.host, lines.profile});
    fmt::print("{}\n",
               json{{"budget_bytes", budget},
                    {"old_ms", 1e3 * old.seconds},
                    {"old_said_ms", row.at("predicted_step_ms")},
                    {"old_arena_bytes", old.arena_bytes},
                    {"new_ms", own == nullptr ? json() : json(1e3 * own->exact->seconds)},
                    {"new_arena_bytes", own == nullptr ? json() : json(own->exact->arena_bytes)},
                    {"new_plan", own == nullptr ? "" : solver.Describe(*own)}}
                   .dump());
  }
}

}  // namespace
}  // namespace plimsoll

int main(int argc, char** argv) {
  CLI::App app("Prices another build's front");
  plimsoll::trainer::PlanCommand command;
  std::string front;
  app.add_option("file", command.file)->required();
  app.add_option("front", front)->required();
  app.add_option("--device", command.device);
  app.add_option("--set", command.sets);
  CLI11_PARSE(app, argc, argv);
  try {
    plimsoll::Run(command, front);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}

// `plimsoll plan --ranks N`.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "base/parallel_each.h"
#include "trainer/plan/plan_table.h"
#include "trainer/settle/activity.h"
#include "trainer/settle/channels.h"
#include "trainer/settle/from_config.h"
#include "trainer/settle/gpu_profile.h"

namespace plimsoll::trainer {
namespace {

using graph::Role;
using nlohmann::ordered_json;

// One way to lay out the ranks, and what each of them takes then.
struct Mesh {
  int64_t data, tensor, zero;
  std::string problem = {};                // why it cannot be
  std::vector<std::string> warnings = {};  // about the file
  memory::MemoryPlan plan = {};
  int64_t process_bytes = 0;
};

Mesh PlanMesh(const PlanCommand& command, Mesh mesh) {
  try {
    config::Loaded loaded = LoadPlanned(
        command,
        {fmt::format("parallel.data={}", mesh.data), fmt::format("parallel.tensor={}", mesh.tensor),
         fmt::format("parallel.zero={}", mesh.zero)},
        mesh.data * mesh.tensor);
    mesh.warnings = std::move(loaded.warnings);
    config::RunConfig& config = loaded.config;
    if (LeavesChoice(config)) {
      throw UserError(
          "plimsoll plan: --ranks compares plans that leave nothing open; set "
          "checkpointing.policy, train.micro_batch and optimizer.place");
    }
    ChooseChannels(config);
    const std::unique_ptr<models::Model> model = ModelFrom(config);
    mesh.plan = Compile(*model, CompileFrom(config, *model)).plan;
    mesh.process_bytes = ProfileFrom(config).ProcessBytes(mesh.plan.arena_bytes);
  } catch (const UserError& error) {
    mesh.problem = error.what();
  }
  return mesh;
}

int64_t StateBytes(const memory::MemoryPlan& plan) {
  return plan.bytes_of(Role::kMaster) + plan.bytes_of(Role::kOptimizerState);
}

std::string Line(const Mesh& mesh) {
  const std::string head = fmt::format("{:>6} {:>7} {:>5}", mesh.data, mesh.tensor, mesh.zero);
  if (!mesh.problem.empty()) return fmt::format("{}  {}\n", head, mesh.problem);
  const auto bytes = [&](Role role) { return FormatBytes(mesh.plan.bytes_of(role)); };
  return fmt::format("{} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}\n", head,
                     bytes(Role::kParameter), bytes(Role::kGradient),
                     FormatBytes(StateBytes(mesh.plan)), bytes(Role::kActivation),
                     FormatBytes(mesh.plan.arena_bytes), FormatBytes(mesh.process_bytes));
}

ordered_json Json(const Mesh& mesh) {
  ordered_json json = {{"data", mesh.data}, {"tensor", mesh.tensor}, {"zero", mesh.zero}};
  if (!mesh.problem.empty()) {
    json["problem"] = mesh.problem;
    return json;
  }
  json["parameter_bytes"] = mesh.plan.bytes_of(Role::kParameter);
  json["gradient_bytes"] = mesh.plan.bytes_of(Role::kGradient);
  json["state_bytes"] = StateBytes(mesh.plan);
  json["activation_bytes"] = mesh.plan.bytes_of(Role::kActivation);
  json["arena_bytes"] = mesh.plan.arena_bytes;
  json["process_bytes"] = mesh.process_bytes;
  return json;
}

}  // namespace

void PrintMeshes(const PlanCommand& command) {
  const int64_t ranks = command.ranks;
  const Activity activity(fmt::format("planning every way to lay out {} ranks", ranks));
  std::vector<std::vector<Mesh>> by_tensor;
  for (int64_t tensor = 1; tensor <= ranks; ++tensor) {
    if (ranks % tensor == 0) by_tensor.push_back({{ranks / tensor, tensor, 0}});
  }
  ThreadPool pool(OwnCores());
  ParallelEach(pool, by_tensor.size(), [&](size_t i) {
    std::vector<Mesh>& stages = by_tensor[i];
    const Mesh mesh = stages.front();
    stages.clear();
    for (int64_t zero = 0; zero <= (mesh.data > 1 ? 3 : 0); ++zero) {
      stages.push_back(PlanMesh(command, {mesh.data, mesh.tensor, zero}));
      if (!stages.back().problem.empty()) break;  // of every stage
    }
  });
  std::vector<Mesh> meshes;
  for (std::vector<Mesh>& stages : by_tensor) std::ranges::move(stages, std::back_inserter(meshes));
  const auto impossible = [](const Mesh& mesh) { return !mesh.problem.empty(); };
  if (std::ranges::all_of(meshes, impossible)) throw UserError(meshes.front().problem);
  for (const std::string& warning : std::ranges::find_if_not(meshes, impossible)->warnings) {
    PrintWarning(warning);
  }
  if (command.json) {
    ordered_json list = ordered_json::array();
    for (const Mesh& mesh : meshes) list.push_back(Json(mesh));
    PrintAnswer(fmt::format("{}\n", ordered_json{{"ranks", ranks}, {"meshes", list}}.dump(1)));
    return;
  }
  PrintAnswer(fmt::format("What each of {} ranks takes, at the peak\n", ranks));
  PrintAnswer(fmt::format("{:>6} {:>7} {:>5} {:>11} {:>11} {:>11} {:>11} {:>11} {:>11}\n", "data",
                          "tensor", "zero", "parameters", "gradients", "state", "activations",
                          "arena", "process"));
  for (const Mesh& mesh : meshes) PrintAnswer(Line(mesh));
}

}  // namespace plimsoll::trainer

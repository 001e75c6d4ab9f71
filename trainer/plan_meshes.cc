// `plimsoll plan --ranks N`.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/message.h"
#include "trainer/channels.h"
#include "trainer/device_profile.h"
#include "trainer/from_config.h"
#include "trainer/plan_table.h"

namespace plimsoll::trainer {
namespace {

using graph::Role;
using nlohmann::ordered_json;

// One way to lay out the ranks, and what each of them takes then.
struct Mesh {
  int64_t data, tensor, zero;
  std::string problem = {};  // why it cannot be
  memory::MemoryPlan plan = {};
  int64_t process_bytes = 0;
};

Mesh PlanMesh(const std::string& file, std::vector<std::string> sets, Mesh mesh) {
  sets.push_back(fmt::format("parallel.data={}", mesh.data));
  sets.push_back(fmt::format("parallel.tensor={}", mesh.tensor));
  sets.push_back(fmt::format("parallel.zero={}", mesh.zero));
  try {
    config::RunConfig config = LoadRun(file, sets, mesh.data * mesh.tensor).config;
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
    if (mesh.tensor == 1 && mesh.zero == 0) throw;  // nothing to do with the mesh
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

void PrintMeshes(const std::string& file, const std::vector<std::string>& sets, int64_t ranks,
                 bool json) {
  std::vector<Mesh> meshes;
  for (int64_t tensor = 1; tensor <= ranks; ++tensor) {
    if (ranks % tensor != 0) continue;
    const int64_t data = ranks / tensor;
    for (int64_t zero = 0; zero <= (data > 1 ? 3 : 0); ++zero) {
      meshes.push_back(PlanMesh(file, sets, {data, tensor, zero}));
      if (!meshes.back().problem.empty()) break;  // of every stage
    }
  }
  if (json) {
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

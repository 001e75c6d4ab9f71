#include "trainer/resolve/muon_matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/glob.h"
#include "trainer/config/schema.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/linear_layers.h"

namespace plimsoll::trainer {
namespace {

constexpr const char* kKey = "optimizer.name";

static_assert(static_cast<int>(config::AdjustLr::kMatchRmsAdamW) ==
              static_cast<int>(optim::MuonOptions::AdjustLr::kMatchRmsAdamW));

// The rows of each matrix stacked in the parameter.
std::vector<int64_t> StackedRows(const models::Model& model,
                                 const models::ParameterInfo& parameter) {
  for (const models::Sharding& row : model.sharding()) {
    if (row.split == models::Sharding::kRows && !row.blocks.empty() &&
        models::MatchNumbers(row.pattern, parameter.name)) {
      return row.blocks;
    }
  }
  const models::CheckpointTable table = model.checkpoint_table();
  std::vector<int64_t> rows;
  for (const models::CheckpointTensor& tensor :
       models::FindRow(table, parameter.name).entry->tensors) {
    if (tensor.rows > 0) rows.push_back(tensor.rows);
  }
  if (rows.empty()) rows.push_back(parameter.shape.dim(0));
  return rows;
}

}  // namespace

std::vector<optim::MuonOptions::Stacked> MuonMatrices(const models::Model& model,
                                                      int64_t sequence) {
  std::vector<optim::MuonOptions::Stacked> matrices;
  for (const auto& [block, weights] : LinearLayersInBlocks(model, sequence)) {
    for (const std::string& weight : weights) {
      const auto found =
          std::ranges::find(model.parameters(), weight, &models::ParameterInfo::name);
      if (found == model.parameters().end()) continue;
      matrices.push_back({weight, StackedRows(model, *found)});
    }
  }
  return matrices;
}

optim::MuonOptions MuonFrom(const config::RunConfig& config, const models::Model& model) {
  if (config.lora.asked()) {
    throw config.Error(kKey,
                       "muon updates the matrices of the model, which are frozen with adapters "
                       "(lora); use adamw");
  }
  if (config.parallel.tensor_ranks() > 1) {
    throw config.Error(kKey, fmt::format("muon needs whole matrices, which {} tensor ranks split; "
                                         "use parallel.tensor: 1, or adamw",
                                         config.parallel.tensor_ranks()));
  }
  optim::MuonOptions muon;
  muon.newton_schulz_steps = config.optimizer.newton_schulz_steps;
  muon.adjust_lr = static_cast<optim::MuonOptions::AdjustLr>(config.optimizer.adjust_lr);
  if (config.amp.dtype == config::Dtype::kBf16) muon.dtype = graph::DType::kBFloat16;
  muon.tf32 = config.amp.dtype == config::Dtype::kTf32;
  muon.matrices = MuonMatrices(model, config.model.sequence());
  if (muon.matrices.empty()) {
    throw config.Error(kKey, fmt::format("muon updates the weights of linear layers in blocks, and "
                                         "models of family {} have none; use adamw or sgd",
                                         model.family()));
  }
  const std::vector<std::string> frozen = FrozenFrom(config, model);
  std::erase_if(muon.matrices,
                [&](const auto& stacked) { return MatchesAnyGlob(frozen, stacked.parameter); });
  if (muon.matrices.empty()) {
    throw config.Error(kKey, fmt::format("all matrices that muon would update are frozen by "
                                         "train.freeze{}; use adamw",
                                         config::GivenAt(config, "train.freeze")));
  }
  return muon;
}

}  // namespace plimsoll::trainer

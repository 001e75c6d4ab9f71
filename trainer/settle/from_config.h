// Loads a run file, and makes the model and the tokenizer that it names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"
#include "data/tokens/dataset.h"
#include "models/model.h"
#include "runtime/device.h"
#include "trainer/config/load.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// Loads a run file, and takes the settings that it leaves open from the checkpoint that it starts
// from (model.init_from): of the model, and how pictures are prepared. parallel.data: auto takes
// those of the ranks that the other axes leave. `weights`: a folder whose weights are used with the
// run file, and which then says how pictures are prepared.
config::Loaded LoadRun(const std::string& path, const std::vector<std::string>& sets,
                       const config::RankCount& ranks = 1, const std::string& weights = "");
// The same for a command that runs on the device: RequireCudaBuild first.
config::Loaded LoadToRun(const std::string& path, const std::vector<std::string>& sets,
                         const config::RankCount& ranks = 1, const std::string& weights = "");
// The same as LoadRun for a text; messages call it `name`.
config::Loaded LoadRunText(const std::string& text, const std::string& name,
                           const std::vector<std::string>& sets = {},
                           const config::RankCount& ranks = 1, const std::string& weights = "");

// The blocks of a model that have parameters, in order (graph/block.h).
std::vector<std::string> BlocksOf(const models::Model& model);
// The model of a folder, with the settings that a run may give next to weights: how texts are
// padded, how labels are smoothed.
std::unique_ptr<models::Model> ModelBeside(config::RunConfig config, const std::string& weights);
// UserErrors name the key, with its file and line.
std::unique_ptr<models::Model> ModelFrom(const config::RunConfig& config);
// data::LoadTokenizer; UserError when its ids exceed the model's vocabulary, or the model has none.
std::unique_ptr<data::Tokenizer> TokenizerFor(const models::Model& model, const std::string& name);

}  // namespace plimsoll::trainer

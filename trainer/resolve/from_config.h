// Loads a run file, and makes the model and the tokenizer that it names.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/tokenizers/begin_tokens.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokens/dataset.h"
#include "models/model.h"
#include "runtime/device.h"
#include "trainer/config/load.h"
#include "trainer/config/run_config.h"

namespace plimsoll::trainer {

// Loads a run file. Settings of the model and of how pictures are prepared that the file leaves
// open are taken from the run's checkpoint (model.init_from). `parallel.data: auto` becomes the
// number of ranks that the other axes leave. `weights` is a folder whose weights are used with the
// run file; the picture preparation is then taken from that folder.
config::Loaded LoadRun(const std::string& path, const std::vector<std::string>& sets,
                       const config::RankCount& ranks = 1, const std::string& weights = "");
// LoadRun for a command that runs on the device: calls RequireCudaBuild first.
config::Loaded LoadToRun(const std::string& path, const std::vector<std::string>& sets,
                         const config::RankCount& ranks = 1, const std::string& weights = "");
// LoadRun for the text of a run file; messages call the file `name`.
config::Loaded LoadRunText(const std::string& text, const std::string& name,
                           const std::vector<std::string>& sets = {},
                           const config::RankCount& ranks = 1, const std::string& weights = "");

// The names of a model's blocks that have parameters, in order (graph/block.h).
std::vector<std::string> BlocksOf(const models::Model& model);
// The model in the folder `weights`, with the settings that a run may give in addition to weights:
// how to pad texts, how to smooth labels.
std::unique_ptr<models::Model> ModelBeside(config::RunConfig config, const std::string& weights);
// Makes the model of a run. UserErrors name the mistaken key, with its file and line.
std::unique_ptr<models::Model> ModelFrom(const config::RunConfig& config);
// How texts begin and end, by data.begin and data.end.
data::TextTokens TextTokensFrom(const config::DataConfig& data);
// Calls data::LoadTokenizer. Throws a UserError when the tokenizer's ids exceed the model's
// vocabulary, or when the model has no vocabulary.
std::unique_ptr<data::Tokenizer> TokenizerFor(const models::Model& model, const std::string& name);

}  // namespace plimsoll::trainer

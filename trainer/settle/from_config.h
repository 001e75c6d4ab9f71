// Translates a run's configuration into the options of the parts that it configures.
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
#include "trainer/step/compile.h"

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
// Why tensor-parallel ranks cannot share the tokens of a micro-step as parallel.sequence asks for;
// empty: they can, or need not.
std::string WhyNoSequence(const config::RunConfig& config, const models::Model& model);
amp::AmpOptions AmpFrom(const config::RunConfig& config);
// data::LoadTokenizer; UserError when its ids exceed the model's vocabulary, or the model has none.
std::unique_ptr<data::Tokenizer> TokenizerFor(const models::Model& model, const std::string& name);

// Options for training with this config, with programs for evaluation and for samples if it asks
// for them.
CompileOptions CompileFrom(const config::RunConfig& config, const models::Model& model);

// A warning where a pass could not do to the programs what a key asks for; empty: all could.
std::string RefusalWarning(const config::RunConfig& config, const CompiledStep& compiled);

// The parameters that train.freeze means (frozen_parameters.cc), by the model's names. A pattern
// that matches some of them means these; any other one is matched with the names of a checkpoint's
// tensors, with or without their prefix, and with those of tied copies. UserError for a pattern
// that matches nothing, for tensors that are a part of a parameter alone, and where nothing is left
// to train.
std::vector<std::string> FrozenFrom(const config::RunConfig& config, const models::Model& model);

}  // namespace plimsoll::trainer

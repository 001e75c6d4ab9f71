// Translates a run's configuration into the options of the parts that it configures.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/model.h"
#include "runtime/device.h"
#include "trainer/config/load.h"
#include "trainer/data/dataset.h"
#include "trainer/step/compile.h"
#include "trainer/text/tokenizer.h"

namespace plimsoll::trainer {

// Loads a run file, and takes the settings that it leaves open from the checkpoint that it starts
// from (model.init_from). parallel.data: auto takes those of the ranks that the other axes leave.
config::Loaded LoadRun(const std::string& path, const std::vector<std::string>& sets,
                       const config::RankCount& ranks = 1);
// The same for a text; messages call it `name`.
config::Loaded LoadRunText(const std::string& text, const std::string& name,
                           const std::vector<std::string>& sets = {},
                           const config::RankCount& ranks = 1);

// Puts the place of a key ("run.yaml:4: ") before a message that begins with that key ("data.train:
// …", "data.train[1]: …").
UserError WithPlace(const config::RunConfig& config, const UserError& error);

// The blocks of a model that have parameters, in order (graph/block.h).
std::vector<std::string> BlocksOf(const models::Model& model);
// UserErrors name the key, with its file and line.
std::unique_ptr<models::Model> ModelFrom(const config::RunConfig& config);
// True if the tensor-parallel ranks can share the tokens of a micro-step, or need not
// (parallel.sequence).
bool SharesTokens(const config::RunConfig& config);
amp::AmpOptions AmpFrom(const config::RunConfig& config);
// data::LoadTokenizer; UserError when its ids exceed the model's vocabulary, or the model has none.
std::unique_ptr<data::Tokenizer> TokenizerFor(const models::Model& model, const std::string& name);

// The cores that this process may use.
int OwnCores();
// ", on 1 of the host's 32 cores: mpirun --bind-to none lets a rank use all" if mpirun, and no one
// else, has bound this process to some of the host's cores; otherwise empty.
std::string BoundCoresNote();
// Threads to compute with: train.threads, or one for each of OwnCores().
int ThreadsFrom(const config::RunConfig& config);

// The device kind of a run, from `device:`; auto means a GPU where this build can use one.
runtime::DeviceKind DeviceFrom(const config::RunConfig& config);
// Whether the host's memory is the device's, so that nothing is won by a place on the host: on a
// CPU, unless debug.host_apart asks for a GPU's choices.
bool IsOneMemory(const config::RunConfig& config);
// What a plan takes of the memory that memory.budget bounds, beside the process's other parts.
int64_t ArenaBytes(const config::RunConfig& config, const memory::MemoryPlan& plan);
// The pool must outlive the device. UserError when this build or machine has no such device.
std::unique_ptr<runtime::Device> MakeDevice(const config::RunConfig& config, ThreadPool& pool);

// Options for training with this config, with programs for evaluation and for samples if it asks
// for them.
CompileOptions CompileFrom(const config::RunConfig& config, const models::Model& model);

// A warning where train.blocks_first could not change the order of a program; empty: it could, or
// was not asked for.
std::string BlocksFirstWarning(const config::RunConfig& config, const CompiledStep& compiled);

}  // namespace plimsoll::trainer

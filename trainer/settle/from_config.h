// A run's configuration in the terms of the parts that it configures.
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

// Loads a run file, and what it leaves to the checkpoint that it starts from (model.init_from).
// `ranks`: how many were started, of which parallel.data: auto takes what other axes leave.
config::Loaded LoadRun(const std::string& path, const std::vector<std::string>& sets,
                       int64_t ranks = 1);
// The same for text in hand, whose messages call it `name`.
config::Loaded LoadRunText(const std::string& text, const std::string& name,
                           const std::vector<std::string>& sets = {}, int64_t ranks = 1);

// A message that begins with a key ("data.train: …", "data.train[1]: …") gets the place where the
// key was given: "run.yaml:4: ".
UserError WithPlace(const config::RunConfig& config, const UserError& error);

// UserErrors name the key, with its file and line.
std::unique_ptr<models::Model> ModelFrom(const config::RunConfig& config);
// Can the tensor-parallel ranks share the tokens of a micro-step, or need not (parallel.sequence)?
bool SharesTokens(const config::RunConfig& config);
amp::AmpOptions AmpFrom(const config::RunConfig& config);
optim::UpdateOptions UpdateFrom(const config::RunConfig& config, const models::Model& model);
// With the keys' places, for patterns that turn out to match nothing.
checkpointing::Options CheckpointingFrom(const config::RunConfig& config);
// data::LoadTokenizer, refused when its ids go beyond the model's vocabulary.
std::unique_ptr<data::Tokenizer> TokenizerFor(const models::Model& model, const std::string& name);

// The cores that this process may use.
int OwnCores();
// ", on 1 of the host's 32 cores: mpirun --bind-to none lets a rank use all" where mpirun, and
// nobody else, has bound this process to some of them; otherwise empty.
std::string BoundCoresNote();
// Threads to compute with: train.threads, or all of these cores.
int ThreadsFrom(const config::RunConfig& config);

// Where a run happens: `device:`, of which auto means a GPU where this build can use one.
runtime::DeviceKind DeviceFrom(const config::RunConfig& config);
// The pool must outlive the device. UserError when this build or machine has no such device.
std::unique_ptr<runtime::Device> MakeDevice(const config::RunConfig& config, ThreadPool& pool);

// For training with this config, with a program for evaluation and one for samples when it asks for
// them.
CompileOptions CompileFrom(const config::RunConfig& config, const models::Model& model);

}  // namespace plimsoll::trainer

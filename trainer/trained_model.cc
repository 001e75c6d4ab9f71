#include "trainer/trained_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "adapters/peft.h"
#include "base/error.h"
#include "models/huggingface.h"
#include "trainer/adapter.h"
#include "trainer/from_config.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;

// Tokens that a checkpoint without a run's config looks back on, if its model allows as many.
constexpr int64_t kContext = 1024;

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

std::string TrainedModel::Tokenizer(const std::string& chosen) const {
  if (!chosen.empty()) return chosen;
  if (!config().data.tokenizer.empty()) return config().data.tokenizer;
  const std::string own = weights + "/tokenizer.json";
  return Exists(own) ? own : "";
}

TrainedModel OpenTrainedModel(const std::string& folder, const std::vector<std::string>& sets) {
  TrainedModel trained;
  trained.folder = folder;
  trained.is_run = Exists(folder + "/config.yaml");
  if (trained.is_run) {
    const std::string adapter = folder + "/adapter";
    std::vector<std::string> all;
    if (Exists(adapter + "/" + adapters::kConfigFile)) all = {"lora.init_from=" + adapter};
    all.insert(all.end(), sets.begin(), sets.end());
    trained.loaded = LoadRun(folder + "/config.yaml", all);
    const config::RunConfig& config = trained.config();
    const bool adapts = config.lora.asked();
    trained.weights = adapts ? config.model.init_from : folder + "/model";
    if (!Exists(adapts ? adapter + "/" + adapters::kConfigFile
                       : trained.weights + "/config.json")) {
      throw UserError(fmt::format("{}: the run has no {}/ yet; it is written when training ends",
                                  folder, adapts ? "adapter" : "model"));
    }
  } else {
    if (!Exists(folder + "/config.json")) {
      throw UserError(folder +
                      ": neither a run directory (config.yaml) nor a Hugging Face folder "
                      "(config.json)");
    }
    const int64_t context = std::min(kContext, models::SpecFromHuggingFace(folder).max_sequence);
    std::vector<std::string> all = {"model.init_from=" + folder, "data.synthetic=true",
                                    "model.sequence=" + std::to_string(context)};
    all.insert(all.end(), sets.begin(), sets.end());
    trained.loaded = LoadRunText("", folder, all);
    trained.weights = folder;
  }
  trained.adapter = trained.config().lora.init_from;
  trained.model = models::MakeModel(models::SpecFromHuggingFace(trained.weights));
  const int64_t longest = trained.model->spec().max_sequence;
  if (trained.config().model.sequence > longest) {
    throw trained.config().Error("model.sequence",
                                 fmt::format("{} tokens are more than the model's {}; choose fewer",
                                             trained.config().model.sequence, longest));
  }
  return trained;
}

void LoadTrained(const TrainedModel& trained, Session& session) {
  session.LoadWeights(*trained.model, trained.weights);
  if (!trained.adapter.empty()) LoadAdapter(session, trained.adapter);
}

CompileOptions InferenceOptions(const TrainedModel& trained, const std::string& dtype) {
  static const std::map<std::string, config::Dtype> kDtypes = {{"fp32", config::Dtype::kFp32},
                                                               {"bf16", config::Dtype::kBf16},
                                                               {"fp16", config::Dtype::kFp16}};
  const auto found = kDtypes.find(dtype);
  if (found == kDtypes.end()) {
    throw UserError("--dtype: '" + dtype + "' is no type for inference; use fp32, bf16 or fp16");
  }
  config::RunConfig config = trained.config();
  config.amp.dtype = found->second;
  CompileOptions options;
  options.lora = LoraFrom(config, *trained.model);
  options.amp = AmpFrom(config);
  options.train = false;
  options.sequence = trained.config().model.sequence;
  options.device = DeviceFrom(trained.config());
  options.threads = ThreadsFrom(trained.config());
  options.dump_directory = trained.config().debug.dump_programs;
  return options;
}

InferenceMemory MemoryOf(const CompiledStep& compiled) {
  InferenceMemory memory;
  memory.arena = compiled.plan.arena_bytes;
  for (const memory::PersistentTensor& tensor : compiled.plan.persistent) {
    if (tensor.role == graph::Role::kParameter) memory.weights += tensor.bytes;
    if (tensor.role == graph::Role::kState) memory.cache += tensor.bytes;
  }
  memory.rest = memory.arena - memory.weights - memory.cache;
  return memory;
}

}  // namespace plimsoll::trainer

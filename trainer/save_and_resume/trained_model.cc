#include "trainer/save_and_resume/trained_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "adapters/peft.h"
#include "base/amounts.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/mapped_file.h"
#include "base/message.h"
#include "formats/foreign_files.h"
#include "formats/json.h"
#include "models/huggingface.h"
#include "trainer/config/overrides.h"
#include "trainer/config/schema.h"
#include "trainer/resolve/compile_from.h"
#include "trainer/resolve/from_config.h"
#include "trainer/resolve/run_device.h"
#include "trainer/save_and_resume/earlier_defaults.h"
#include "trainer/save_and_resume/run_record.h"
#include "trainer/save_and_resume/text_ends.h"
#include "trainer/step/adapter.h"
#include "trainer/step/reading_buffers.h"
#include "trainer/step/saved_tensors.h"

namespace plimsoll::trainer {
namespace {

// The context of a checkpoint without a run's config, unless its model allows fewer tokens.
constexpr int64_t kContext = 1024;

config::Loaded LoadStoredRun(const std::string& folder, const std::vector<std::string>& sets) {
  config::Loaded loaded = LoadRun(folder + "/config.yaml", sets);
  KeepStoredDefaults(loaded.config);
  return loaded;
}

// Opens a run that has ended; `source` is its model/ or adapter/.
void OpenEndedRun(const std::string& source, const std::vector<std::string>& sets,
                  TrainedModel& trained) {
  std::vector<std::string> all;
  const bool adapts = Exists(source + "/" + adapters::kConfigFile);
  if (adapts) all.push_back("lora.init_from=" + source);
  all.insert(all.end(), sets.begin(), sets.end());
  trained.loaded = LoadStoredRun(trained.folder, all);
  trained.weights = adapts ? trained.config().model.init_from : source;
  trained.adapter = trained.config().lora.init_from;
  trained.model = ModelBeside(trained.config(), trained.weights);
}

void OpenSnapshot(const std::string& source, const std::vector<std::string>& sets,
                  TrainedModel& trained) {
  trained.snapshot.emplace(source);
  const RunRecord record = ParseRunRecord(trained.snapshot->manifest().run, source);
  std::vector<std::string> all = ModelSets(record);
  if (!trained.is_run) all.push_back("data.synthetic=true");
  all.insert(all.end(), sets.begin(), sets.end());
  trained.loaded =
      trained.is_run ? LoadStoredRun(trained.folder, all) : LoadRunText("", source, all);
  KeepEarlierDefaults(trained.loaded.config, record.config);
  if (!trained.loaded.config.IsSet("data.end")) {
    trained.loaded.config.data.end = EndOfRun(record, source);
  }
  const config::RunConfig& config = trained.config();
  if (std::ranges::any_of(sets, [](const auto& s) { return s.starts_with("lora.init_from="); })) {
    throw UserError(fmt::format(
        "--adapter: goes with a Hugging Face folder; {} has weights of its own", source));
  }
  RequireStoredModel(config, source);
  trained.model = SavedModel(record, config, source);
  trained.weights = config.lora.asked() ? config.model.init_from : source;
}

// Names the adapter that is next to the folder's full weights, if any, unless --adapter names one.
// transformers puts it on, too.
void PutOnAdapter(const std::string& folder, std::vector<std::string>& sets) {
  const auto names = [](const std::string& set) { return set.starts_with("lora.init_from="); };
  if (!Exists(folder + "/" + adapters::kConfigFile) || std::ranges::any_of(sets, names)) return;
  PrintNote(fmt::format("with the adapter next to the weights ({}/{}), as transformers has it\n",
                        folder, adapters::kConfigFile));
  sets.push_back("lora.init_from=" + folder);
}

void OpenCheckpoint(const WeightChoice& choice, std::vector<std::string> sets,
                    const std::string& run_file, TrainedModel& trained) {
  const std::string& folder = trained.folder;
  if (!Exists(folder + "/config.json")) {
    formats::RefuseForeignModel(folder);
    throw UserError(folder +
                    ": neither a run directory (config.yaml), a snapshot (manifest.json) nor a "
                    "Hugging Face folder (config.json)");
  }
  if (choice.step || choice.best) {
    throw UserError(fmt::format("{}: {} has no snapshots; name a run directory",
                                choice.best ? "--best" : "--step", folder));
  }
  if (choice.ema) {
    throw UserError(fmt::format("--ema: {} has weights alone; name a run directory", folder));
  }
  trained.weights = folder;
  PutOnAdapter(folder, sets);
  if (!run_file.empty()) {
    trained.loaded = LoadToRun(run_file, sets, 1, folder);
    for (const std::string& note : trained.loaded.notes) PrintNote(note + "\n");
    // If no adapter is named, ignores adapters that the file would train.
    config::LoraConfig& lora = trained.loaded.config.lora;
    if (lora.init_from.empty()) lora = {};
    trained.model = ModelBeside(trained.config(), folder);
    trained.adapter = trained.config().lora.init_from;
    return;
  }
  trained.model = models::ModelFromHuggingFace(folder);
  std::vector<std::string> all = {"model.init_from=" + folder, "data.synthetic=true"};
  if (const auto sizes = trained.model->text_sizes()) {
    all.push_back("model.sequence=" + std::to_string(std::min(kContext, sizes->max_sequence)));
  }
  all.insert(all.end(), sets.begin(), sets.end());
  trained.loaded = LoadRunText("", folder, all);
  trained.adapter = trained.config().lora.init_from;
}

}  // namespace

std::string TrainedModel::Tokenizer(const std::string& chosen) const {
  if (!chosen.empty()) return chosen;
  if (!config().data.tokenizer.empty()) return config().data.tokenizer;
  for (const char* name : {"/tokenizer.json", "/vocab.json", "/vocab.txt"}) {
    if (Exists(weights + name)) return weights + name;
  }
  return "";
}

std::vector<int32_t> TrainedModel::Ends() const {
  const bool is_model = Exists(weights + "/config.json");  // otherwise a snapshot
  return TextEnds(*model, is_model ? weights : config().model.init_from);
}

TrainedModel OpenTrainedModel(const std::string& folder, const std::vector<std::string>& sets,
                              const WeightChoice& choice, const std::string& run_file) {
  TrainedModel trained;
  trained.folder = folder;
  trained.averages = choice.ema;
  trained.is_run = IsRunDirectory(folder);
  if (trained.is_run || IsSnapshot(folder)) {
    if (!run_file.empty()) {
      throw UserError(
          fmt::format("--run-file: goes with a Hugging Face folder; {} has data of its "
                      "own, but {}/model is such a folder once the run has ended",
                      folder, folder));
    }
    if (trained.is_run) {
      const std::string file = folder + "/config.yaml";
      RequireCudaBuild(config::ReadFile(file), file, sets);
    }
    const std::string source = FindWeights(folder, choice);
    if (IsSnapshot(source)) {
      OpenSnapshot(source, sets, trained);
    } else {
      OpenEndedRun(source, sets, trained);
    }
  } else {
    OpenCheckpoint(choice, sets, run_file, trained);
  }
  if (!trained.adapter.empty()) {
    RequireBase(adapters::BaseChecksumOf(trained.adapter), trained.adapter, trained.weights);
    trained.model->set_class_names(adapters::ClassNamesOf(trained.adapter));
  }
  const std::optional<models::TextSizes> sizes = trained.model->text_sizes();
  if (sizes && trained.config().model.sequence() > sizes->max_sequence) {
    throw trained.config().Error(
        "model.sequence", fmt::format("{} tokens are more than the model's {}; choose fewer",
                                      trained.config().model.sequence(), sizes->max_sequence));
  }
  return trained;
}

void LoadTrained(const TrainedModel& trained, Session& session) {
  const adapters::Lora& lora = session.compiled().options.lora;
  if (lora.enabled() && !trained.snapshot && trained.adapter.empty()) {
    throw InternalError("adapters without weights");
  }
  if (!trained.snapshot || lora.enabled()) session.LoadWeights(*trained.model, trained.weights);
  if (trained.snapshot) {
    PrintNote(fmt::format(
        "{} after {}, of the snapshot {}\n", trained.averages ? "averages of weights" : "weights",
        Counted(trained.snapshot->manifest().step, "step"), trained.snapshot->path()));
    const SavedTensors saved(*trained.snapshot, *trained.model, lora, trained.averages);
    std::vector<models::ParameterInfo> parameters =
        lora.enabled() ? adapters::TrainedParameters(lora) : trained.model->parameters();
    std::erase_if(parameters, [&](const models::ParameterInfo& parameter) {
      return !session.Carries(parameter.name);  // a program may omit a head
    });
    const ReadingBuffers staging(session);
    saved.Load(parameters, staging.buffers(), session.device().pool(),
               [&](const models::ParameterInfo& parameter, int64_t first,
                   const graph::TypedElements& elements) {
                 session.WriteElements(parameter.name, first, elements);
               });
    for (const models::StateInfo& state : trained.model->states()) {
      if (session.Carries(state.name)) session.WriteParameter(state.name, saved.ReadState(state));
    }
  } else if (!trained.adapter.empty()) {
    LoadAdapter(session, *trained.model, trained.adapter);
  }
}

std::string ChecksumOf(const TrainedModel& trained) {
  std::string text;
  if (trained.snapshot) {
    text = fmt::format("{:08x}{}", Crc32c(snapshots::ToText(trained.snapshot->manifest())),
                       trained.averages ? "-averages" : "");
  } else if (!trained.adapter.empty()) {
    const MappedFile file(trained.adapter + "/adapter_model.safetensors");
    text = fmt::format("{:08x}", Crc32c(file.text()));
  }
  if (!text.empty() && trained.adapter.empty()) return text;
  return models::WeightsChecksum(trained.weights) + (text.empty() ? "" : "-" + text);
}

std::string DefaultDtype(const TrainedModel& trained, runtime::DeviceKind device) {
  if (device == runtime::DeviceKind::kCpu) return "fp32";
  std::string dtype;
  if (trained.is_run) {
    dtype = config::FindKey("amp.dtype")->Text(trained.config());
  } else if (trained.snapshot) {
    const RunRecord record =
        ParseRunRecord(trained.snapshot->manifest().run, trained.snapshot->path());
    if (const auto found = record.config.find("amp.dtype"); found != record.config.end()) {
      dtype = found->second;
    }
  } else {
    const auto config = formats::JsonObject::FromFile(trained.weights + "/config.json");
    dtype = config.GetString("dtype", config.GetString("torch_dtype", ""));
    if (dtype.starts_with("torch.")) dtype = dtype.substr(6);
  }
  if (dtype == "bf16" || dtype == "bfloat16") return "bf16";
  return dtype == "fp16" || dtype == "float16" ? "fp16" : "fp32";
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
  options.sequence = trained.config().model.sequence();
  options.device = DeviceFrom(trained.config());
  options.capability = CapabilityFrom(trained.config());
  options.threads = ThreadsFrom(trained.config());
  options.dump_directory = trained.config().debug.dump_programs;
  return options;
}

InferenceMemory MemoryOf(const CompiledStep& compiled) {
  InferenceMemory memory;
  memory.arena = compiled.plan.arena_bytes;
  for (const memory::PersistentTensor& tensor : compiled.plan.persistent) {
    if (tensor.role == graph::Role::kParameter) memory.weights += tensor.bytes;
    const bool model = std::ranges::find(compiled.states, tensor.name, &models::StateInfo::name) !=
                       compiled.states.end();
    if (tensor.role == graph::Role::kState && !model) memory.cache += tensor.bytes;
  }
  memory.rest = memory.arena - memory.weights - memory.cache;
  return memory;
}

}  // namespace plimsoll::trainer

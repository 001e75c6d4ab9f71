#include "trainer/save_and_resume/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "adapters/peft.h"
#include "base/amounts.h"
#include "base/error.h"
#include "base/folders.h"
#include "base/mapped_file.h"
#include "base/message.h"
#include "data/chats/chat_template.h"
#include "data/images/preprocessor_config.h"
#include "data/tokenizers/generation_config.h"
#include "models/huggingface.h"
#include "snapshots/snapshot.h"
#include "trainer/config/load.h"
#include "trainer/resolve/from_config.h"
#include "trainer/save_and_resume/chat_template_file.h"
#include "trainer/save_and_resume/earlier_defaults.h"
#include "trainer/save_and_resume/picture_preparation.h"
#include "trainer/save_and_resume/run_record.h"
#include "trainer/save_and_resume/text_ends.h"
#include "trainer/save_and_resume/tokenizer_files.h"
#include "trainer/step/adapter.h"
#include "trainer/step/saved_tensors.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;
using formats::TensorType;

TensorType TypeOf(const std::string& dtype) {
  static const std::map<std::string, TensorType> kTypes = {
      {"fp32", TensorType::kF32}, {"bf16", TensorType::kBf16}, {"fp16", TensorType::kF16}};
  const auto found = kTypes.find(dtype);
  if (found != kTypes.end()) return found->second;
  throw UserError("--dtype: '" + dtype + "' is no type for weights; use fp32, bf16 or fp16");
}

// The run, snapshot or model to export.
struct Source {
  std::string folder;  // the folder of the weights
  std::string in_words;
  config::RunConfig config;
  std::unique_ptr<models::Model> model;
  adapters::Lora lora;
  std::string base;  // checksum of the adapter's base weights
  std::optional<snapshots::Snapshot> snapshot;
  bool averages = false;  // whether to export a snapshot's averages

  // Whether weights are copied unchanged: those of a model without a snapshot.
  bool is_copied() const { return !snapshot && !lora.enabled(); }
};

Source Open(const ExportCommand& command) {
  Source source;
  source.folder = source.in_words = FindWeights(command.run, command.choice);
  source.averages = command.choice.ema;
  if (IsSnapshot(source.folder)) {
    source.snapshot.emplace(source.folder);
    const RunRecord record = ParseRunRecord(source.snapshot->manifest().run, source.folder);
    std::vector<std::string> sets = ModelSets(record);
    sets.push_back("data.synthetic=true");
    source.config = LoadRunText("", source.folder, sets).config;
    KeepEarlierDefaults(source.config, record.config);
    source.config.data.end = EndOfRun(record, source.folder);
    RequireStoredModel(source.config, source.folder);
    source.model = SavedModel(record, source.config, source.folder);
    source.base = record.base;
    source.in_words += fmt::format("{}, after {}", source.averages ? ", averages" : "",
                                   Counted(source.snapshot->manifest().step, "step"));
  } else if (Exists(source.folder + "/" + adapters::kConfigFile)) {
    source.config =
        LoadRun(command.run + "/config.yaml", {"lora.init_from=" + source.folder}).config;
    KeepStoredDefaults(source.config);
    source.model = ModelFrom(source.config);
    source.base = adapters::BaseChecksumOf(source.folder);
    RequireBase(source.base, source.folder, source.config.model.init_from);
    source.model->set_class_names(adapters::ClassNamesOf(source.folder));
  } else {
    source.config = config::Load(command.run + "/config.yaml").config;
    KeepStoredDefaults(source.config);
    source.model = models::ModelFromHuggingFace(source.folder);
    return source;
  }
  source.lora = LoraFrom(source.config, *source.model);
  return source;
}

// Reads the parameters to export, as float32.
class Weights {
 public:
  explicit Weights(const Source& source) : source_(source) {
    if (source.snapshot) {
      saved_.emplace(*source.snapshot, *source.model, source.lora, source.averages);
      return;
    }
    adapters::ReadAdapter(
        source.folder, *source.model, source.lora,
        [&](const models::ParameterInfo& parameter) {
          std::vector<float>& values = adapter_[parameter.name];
          values.resize(static_cast<size_t>(parameter.shape.elements()));
          return values.data();
        },
        [](const models::ParameterInfo&) {});
  }

  // Reads a trained parameter.
  std::vector<float> ReadTrained(const models::ParameterInfo& parameter) const {
    if (saved_) return saved_->ReadParameter(parameter);
    return adapter_.at(parameter.name);
  }

  // Reads a parameter of the model, with the adapter's update added if there is an adapter.
  std::vector<float> ReadMerged(const models::ParameterInfo& parameter) {
    const std::vector<models::ParameterInfo>& saved = source_.lora.saved;
    if (!source_.lora.enabled() || std::ranges::find(saved, parameter) != saved.end()) {
      return ReadTrained(parameter);
    }
    if (!base_) {
      std::set<std::string> left_out;
      for (const models::ParameterInfo& of_adapter : saved) left_out.insert(of_adapter.name);
      base_.emplace(source_.config.model.init_from, *source_.model, models::Misfits::kFitted,
                    left_out);
    }
    std::vector<float> values(static_cast<size_t>(parameter.shape.elements()));
    base_->Read(parameter, values.data());
    const std::vector<models::ParameterInfo> adapters = adapters::Parameters(source_.lora);
    for (size_t i = 0; i < source_.lora.layers.size(); ++i) {
      const adapters::Layer& layer = source_.lora.layers[i];
      if (layer.WeightName() != parameter.name) continue;
      adapters::Merge(source_.lora, layer, ReadTrained(adapters[2 * i]),
                      ReadTrained(adapters[2 * i + 1]), values);
    }
    return values;
  }

 private:
  const Source& source_;
  std::optional<SavedTensors> saved_;
  std::map<std::string, std::vector<float>> adapter_;  // used without a snapshot
  std::optional<models::WeightReader> base_;           // reads the adapter's base
};

void WriteModel(const Source& source, const std::string& to, TensorType type) {
  if (source.is_copied()) return models::CopyWeights(source.folder, to, type);
  Weights weights(source);
  std::vector<float> values;
  std::string current;  // name of the parameter in `values_`
  models::SaveWeights(
      to, *source.model,
      [&](const models::ParameterInfo& parameter) {
        if (current != parameter.name) values = weights.ReadMerged(parameter);
        current = parameter.name;
        return values.data();
      },
      models::kMaxCheckpointFileBytes, type);
}

void WriteAdapter(const Source& source, const std::string& to, TensorType type) {
  const Weights weights(source);
  std::vector<float> values;
  adapters::WriteAdapter(to, *source.model, source.lora,
                         {source.config.model.init_from, source.base}, type,
                         [&](const models::ParameterInfo& parameter) {
                           values = weights.ReadTrained(parameter);
                           return values.data();
                         });
}

CopiedTokenizer TokenizerOf(const ExportCommand& command, const Source& source,
                            const std::string& tokenizer) {
  try {
    const std::string copy =
        source.is_copied() ? source.folder + "/" + data::kChatTemplateFile : "";
    const std::string chats = ChatTemplateText(
        ChatTemplateOfRun(source.config, source.snapshot ? &*source.snapshot : nullptr), copy);
    return CopiedTokenizerFor(*source.model, tokenizer, source.config.data, chats);
  } catch (const UserError& error) {
    throw UserError(fmt::format(
        "{}: {}", command.tokenizer.empty() ? "data.tokenizer" : "--tokenizer", error.what()));
  }
}

// The text that describes the picture preparation: the file next to the weights, or else made from
// the run's data. Empty for other models; empty, with a warning, if that data can no longer be
// read.
std::string PreparationOf(const Source& source) {
  if (!ClassifiesPictures(*source.model)) return "";
  const std::string file = source.folder + "/" + data::kPreparationFile;
  try {
    if (source.is_copied() && Exists(file)) return std::string(MappedFile(file).text());
    const config::RunConfig data =
        source.snapshot
            ? RecordedData(ParseRunRecord(source.snapshot->manifest().run, source.folder),
                           source.folder)
            : source.config;
    const auto preparation = PreparationBy(data, *source.model);
    return preparation ? data::PreparationText(*preparation) : "";
  } catch (const UserError& error) {
    PrintWarning(
        fmt::format("no {} next to the weights: {}", data::kPreparationFile, error.what()));
    return "";
  }
}

// Whether an export wrote the file. Also true for temporary files that a killed export left
// (base/output_file.h).
bool IsFromExport(const std::string& file) {
  const std::string name = file.substr(0, file.find(".tmp."));
  return name == "config.json" || name == adapters::kConfigFile || name == data::kPreparationFile ||
         name == "adapter_model.safetensors" ||
         (name.starts_with("model") &&
          (name.ends_with(".safetensors") || name == "model.safetensors.index.json")) ||
         name == data::kGenerationFile || IsTokenizerFile(name);
}

void ClearFolder(const ExportCommand& command, const Source& source,
                 const CopiedTokenizer& tokenizer) {
  if (!Exists(command.to)) return;
  std::error_code error;
  if (!fs::is_directory(command.to, error)) {
    throw UserError("--to: " + command.to + " is a file; name a folder");
  }
  if (fs::is_empty(command.to, error)) return;
  if (!command.overwrite) {
    throw UserError("--to: " + command.to +
                    " is not empty; name another folder, or add --overwrite to replace the model "
                    "that it holds");
  }
  bool is_source = fs::equivalent(command.to, source.folder, error);
  if (source.lora.enabled()) {
    is_source |= fs::equivalent(command.to, source.config.model.init_from, error);
  }
  for (const auto& [name, from] : tokenizer.copies) {
    is_source |= fs::equivalent(command.to + "/" + name, from, error);
  }
  if (is_source) {
    throw UserError("--to: " + command.to + " is read from; name another folder");
  }
  // The config file makes a folder a model, so it is removed first and written last.
  fs::remove(command.to + "/config.json", error);
  fs::remove(command.to + "/" + adapters::kConfigFile, error);
  for (const auto& file : fs::directory_iterator(command.to, error)) {
    if (IsFromExport(file.path().filename())) fs::remove_all(file.path(), error);
  }
}

void SayTokenizer(const std::string& tokenizer, const CopiedTokenizer& files) {
  std::vector<std::string> names = files.Names();
  if (!files.chat_template.empty()) {
    std::erase(names, data::kChatTemplateFile);
    PrintProgress(fmt::format("chats: {}, from data.chat_template\n", data::kChatTemplateFile));
  }
  if (!names.empty()) {
    PrintProgress(fmt::format("tokenizer: {}, from {}\n", fmt::join(names, ", "), tokenizer));
    if (!files.begins.empty()) {
      PrintProgress(
          fmt::format("  the run's {}; in transformers, call it with "
                      "add_special_tokens=False\n",
                      files.begins));
    }
  } else if (tokenizer.empty()) {
    PrintProgress("no tokenizer: the run names none (data.tokenizer); --tokenizer PATH adds one\n");
  } else {
    PrintProgress("no tokenizer: ids are bytes, for which transformers has no files\n");
  }
}

// Prints which files define the model's inputs.
void SayInputs(const Source& source, const std::string& tokenizer, const CopiedTokenizer& files,
               const std::string& preparation) {
  if (ClassifiesPictures(*source.model)) {
    if (!preparation.empty()) PrintProgress(fmt::format("pictures: {}\n", data::kPreparationFile));
  } else if (!SegmentsPictures(*source.model)) {
    SayTokenizer(tokenizer, files);
  }
}

}  // namespace

void RunExport(const ExportCommand& command) {
  const TensorType type = TypeOf(command.dtype);
  const Source source = Open(command);
  const bool adapts = source.lora.enabled();
  if (command.merge && !adapts) {
    throw UserError("--merge: " + command.run + " has no adapter to merge; leave it out");
  }
  const bool adapter_alone = adapts && !command.merge;
  const std::string tokenizer =
      command.tokenizer.empty() ? source.config.data.tokenizer : command.tokenizer;
  const CopiedTokenizer files = TokenizerOf(command, source, tokenizer);
  std::string preparation, generation;
  if (!adapter_alone) {
    preparation = PreparationOf(source);
    const std::string base = source.is_copied() ? source.folder : source.config.model.init_from;
    generation = GenerationConfigText(*source.model, base, files.end);
  }
  ClearFolder(command, source, files);

  if (adapter_alone) {
    WriteAdapter(source, command.to, type);
    WriteTokenizerFiles(files, command.to);
    int64_t count = 0;
    for (const auto& parameter : adapters::TrainedParameters(source.lora)) {
      count += parameter.shape.elements();
    }
    PrintProgress(fmt::format("{}: adapter of rank {} with {} parameters in {}, from {}\n",
                              command.to, source.lora.rank, FormatCount(static_cast<double>(count)),
                              command.dtype, source.in_words));
    SayInputs(source, tokenizer, files, preparation);
    return;
  }
  WriteModel(source, command.to, type);
  WriteTokenizerFiles(files, command.to);
  WriteGenerationConfig(generation, command.to);
  data::WritePreparation(preparation, command.to);
  PrintProgress(fmt::format(
      "{}: {} with {} parameters in {}, from {}{}\n", command.to, source.model->family(),
      FormatCount(static_cast<double>(source.model->parameter_count())), command.dtype,
      source.in_words, adapts ? ", merged with its adapter" : ""));
  SayInputs(source, tokenizer, files, preparation);
}

}  // namespace plimsoll::trainer

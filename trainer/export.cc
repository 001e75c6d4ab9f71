#include "trainer/export.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "models/huggingface.h"
#include "snapshots/folder.h"
#include "snapshots/snapshot.h"
#include "trainer/config/load.h"
#include "trainer/data/tokenizer.h"
#include "trainer/from_config.h"
#include "trainer/resume.h"
#include "trainer/run_record.h"
#include "trainer/saved_tensors.h"
#include "trainer/stored_parameter.h"

namespace plimsoll::trainer {
namespace {

namespace fs = std::filesystem;
using formats::TensorType;

// What lies beside the tokenizer.json of a checkpoint and belongs to it.
constexpr const char* kBesideTokenizer[] = {"tokenizer_config.json", "special_tokens_map.json",
                                            "vocab.json", "merges.txt"};

bool Exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

TensorType TypeOf(const std::string& dtype) {
  static const std::map<std::string, TensorType> kTypes = {
      {"fp32", TensorType::kF32}, {"bf16", TensorType::kBf16}, {"fp16", TensorType::kF16}};
  const auto found = kTypes.find(dtype);
  if (found != kTypes.end()) return found->second;
  throw UserError("--dtype: '" + dtype + "' is no type for weights; use fp32, bf16 or fp16");
}

bool IsNewer(const std::string& file, const std::string& than) {
  std::error_code error;
  return fs::last_write_time(file, error) > fs::last_write_time(than, error);
}

// The folder of a snapshot, or of a trained model.
std::string FindSource(const ExportCommand& command) {
  std::string run = command.run;
  while (run.size() > 1 && run.ends_with('/')) run.pop_back();
  if (Exists(run + "/" + snapshots::kManifestFile)) {
    if (!command.step) return run;
    throw UserError("--step: " + run + " is one snapshot; name the run's directory to choose");
  }
  if (!Exists(run + "/config.yaml")) {
    throw UserError(fmt::format("{}: neither a run directory (config.yaml) nor a snapshot ({})",
                                run, snapshots::kManifestFile));
  }
  const snapshots::Folder folder(SnapshotsOf(run));
  const std::vector<int64_t> steps = folder.Steps();
  if (command.step) {
    if (std::ranges::find(steps, *command.step) != steps.end()) return folder.PathOf(*command.step);
    throw UserError(fmt::format(
        "--step: {} has no snapshot of step {}; {}", run, *command.step,
        steps.empty() ? "it has none" : fmt::format("there are {}", fmt::join(steps, ", "))));
  }
  const std::string model = run + "/model", config = model + "/config.json";
  if (!steps.empty()) {
    const std::string newest = folder.PathOf(steps.back());
    if (!Exists(config) || IsNewer(newest + "/" + snapshots::kManifestFile, config)) return newest;
  }
  if (Exists(config)) return model;
  throw UserError(run +
                  ": the run has neither snapshots nor a model/ yet; it writes them as save.every "
                  "says, and when training ends");
}

// What a snapshot says of its run's model and tokenizer. Its data and ranks need not be here.
config::RunConfig ConfigOf(const RunRecord& record, const std::string& snapshot) {
  std::vector<std::string> sets = {"data.synthetic=true"};
  for (const auto& [key, value] : record.config) {
    if (!key.starts_with("model.") && key != "data.tokenizer") continue;
    sets.push_back(fmt::format("{}={}", key, value));
  }
  return LoadRunText("", snapshot, sets).config;
}

// That its weights are of.
std::unique_ptr<models::Model> ModelOf(const RunRecord& record, const config::RunConfig& config,
                                       const std::string& snapshot) {
  std::unique_ptr<models::Model> model = ModelFrom(config);
  if (RecordOf(config, model->spec()).model != record.model) {
    throw UserError(
        fmt::format("{}: was written by a run of another model than the one that "
                    "model.init_from, {}, holds now; put back that one's config.json",
                    snapshot, config.model.init_from));
  }
  return model;
}

graph::DType WeightType(const snapshots::Snapshot& snapshot,
                        const snapshots::TensorRecord& record) {
  switch (record.type) {
    case TensorType::kF32:
      return graph::DType::kFloat32;
    case TensorType::kBf16:
      return graph::DType::kBFloat16;
    case TensorType::kF16:
      return graph::DType::kFloat16;
    default:
      FailTensor(snapshot, record.name, "is of no type that weights have");
  }
}

// As float32, put together from what is stored of it.
std::vector<float> ReadWeight(const snapshots::Snapshot& snapshot, const SavedTensors& saved,
                              const models::ParameterInfo& parameter) {
  const int64_t elements = parameter.shape.elements();
  const auto read = [&](const std::string& name, int64_t element_bytes) {
    std::vector<std::byte> bytes = saved.Read(name, parameter.name);
    if (static_cast<int64_t>(bytes.size()) != elements * element_bytes) {
      FailTensor(snapshot, name, "is of another size");
    }
    return bytes;
  };
  const auto read_if_any = [&](const std::string& name, int64_t element_bytes) {
    return saved.Find(name) == nullptr ? std::vector<std::byte>() : read(name, element_bytes);
  };
  const snapshots::TensorRecord* const record = saved.Find(parameter.name);
  if (record == nullptr) FailTensor(snapshot, parameter.name, "is missing");
  const graph::DType type = WeightType(snapshot, *record);
  std::vector<std::byte> weight = read(parameter.name, graph::ByteSize(type));
  std::vector<std::byte> remainder = read_if_any(parameter.name + ".remainder", sizeof(int16_t));
  std::vector<std::byte> master = read_if_any(parameter.name + ".master", sizeof(float));
  std::vector<float> values(static_cast<size_t>(elements));
  StoredParameter(type, elements, weight.data(),
                  remainder.empty() ? nullptr : reinterpret_cast<int16_t*>(remainder.data()),
                  master.empty() ? nullptr : reinterpret_cast<float*>(master.data()))
      .Get(values);
  return values;
}

void WriteWeights(const snapshots::Snapshot& snapshot, const models::Model& model,
                  const std::string& to, TensorType type) {
  const SavedTensors saved(snapshot, model);
  std::vector<float> values;
  const models::ParameterInfo* current = nullptr;  // whose values they are
  models::SaveWeights(
      to, model,
      [&](const models::ParameterInfo& parameter) {
        if (current != &parameter) values = ReadWeight(snapshot, saved, parameter);
        current = &parameter;
        return values.data();
      },
      models::kMaxCheckpointFileBytes, type);
}

// Files to copy, by the names that transformers expects.
std::map<std::string, std::string> TokenizerCopies(const std::string& tokenizer) {
  if (tokenizer.empty()) return {};
  const data::TokenizerFiles files = data::FindTokenizer(tokenizer);
  if (files.vocabulary.empty()) return {};
  if (!files.merges.empty()) {
    return {{"vocab.json", files.vocabulary}, {"merges.txt", files.merges}};
  }
  std::map<std::string, std::string> copies = {{"tokenizer.json", files.vocabulary}};
  const fs::path path = files.vocabulary;
  if (path.filename() != "tokenizer.json") return copies;
  for (const char* name : kBesideTokenizer) {
    const std::string beside = (path.parent_path() / name).string();
    if (Exists(beside)) copies[name] = beside;
  }
  return copies;
}

// Also what one that was killed has left (base/output_file.h).
bool IsFromExport(const std::string& file) {
  const std::string name = file.substr(0, file.find(".tmp."));
  return name == "config.json" || name == "tokenizer.json" ||
         (name.starts_with("model") &&
          (name.ends_with(".safetensors") || name == "model.safetensors.index.json")) ||
         std::ranges::find(kBesideTokenizer, name) != std::end(kBesideTokenizer);
}

void ClearFolder(const ExportCommand& command, const std::string& source,
                 const std::map<std::string, std::string>& copies) {
  std::error_code error;
  if (!fs::exists(command.to, error)) return;
  if (!fs::is_directory(command.to, error)) {
    throw UserError("--to: " + command.to + " is a file; name a folder");
  }
  if (fs::is_empty(command.to, error)) return;
  if (!command.overwrite) {
    throw UserError("--to: " + command.to +
                    " is not empty; name another folder, or add --overwrite to replace the model "
                    "that it holds");
  }
  bool is_source = fs::equivalent(command.to, source, error);
  for (const auto& [name, from] : copies) {
    is_source |= fs::equivalent(command.to + "/" + name, from, error);
  }
  if (is_source) {
    throw UserError("--to: " + command.to + " is read from; name another folder");
  }
  // The first to go, and the last to be written, is what makes the rest a model.
  fs::remove(command.to + "/config.json", error);
  for (const auto& file : fs::directory_iterator(command.to, error)) {
    if (IsFromExport(file.path().filename())) fs::remove(file.path(), error);
  }
}

void SayTokenizer(const std::string& tokenizer, const std::map<std::string, std::string>& copies) {
  std::vector<std::string> names;
  for (const auto& [name, from] : copies) names.push_back(name);
  if (!names.empty()) {
    fmt::print("tokenizer: {}, from {}\n", fmt::join(names, ", "), tokenizer);
  } else if (tokenizer.empty()) {
    fmt::print("no tokenizer: the run names none (data.tokenizer); --tokenizer PATH adds one\n");
  } else {
    fmt::print("no tokenizer: ids are bytes, for which transformers has no files\n");
  }
}

}  // namespace

void RunExport(const ExportCommand& command) {
  const TensorType type = TypeOf(command.dtype);
  const std::string source = FindSource(command);
  std::optional<snapshots::Snapshot> snapshot;
  std::unique_ptr<models::Model> model;
  std::string tokenizer = command.tokenizer, where = source;
  if (Exists(source + "/" + snapshots::kManifestFile)) {
    snapshot.emplace(source);
    const RunRecord record = ParseRunRecord(snapshot->manifest().run, source);
    const config::RunConfig config = ConfigOf(record, source);
    model = ModelOf(record, config, source);
    if (tokenizer.empty()) tokenizer = config.data.tokenizer;
    where += fmt::format(", after {} steps", snapshot->manifest().step);
  } else {
    model = models::MakeModel(models::SpecFromHuggingFace(source));
    if (tokenizer.empty()) {
      tokenizer = config::Load(command.run + "/config.yaml").config.data.tokenizer;
    }
  }
  const std::map<std::string, std::string> copies = TokenizerCopies(tokenizer);
  if (!copies.empty()) TokenizerFor(*model, tokenizer);  // refuses one that is not the model's
  ClearFolder(command, source, copies);

  if (snapshot) {
    WriteWeights(*snapshot, *model, command.to, type);
  } else {
    models::CopyWeights(source, command.to, type);
  }
  for (const auto& [name, from] : copies) {
    OutputFile file(command.to + "/" + name);
    file.Write(MappedFile(from).text());
    file.Commit();
  }
  fmt::print("{}: {} with {} parameters in {}, from {}\n", command.to,
             models::Name(model->spec().family),
             FormatCount(static_cast<double>(model->parameter_count())), command.dtype, where);
  SayTokenizer(tokenizer, copies);
}

}  // namespace plimsoll::trainer

// A model's parameters and states to and from safetensors files, one tensor at a time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/output_file.h"
#include "formats/model_safetensors.h"
#include "formats/safetensors_writer.h"
#include "models/huggingface.h"

namespace plimsoll::models {
namespace {

namespace fs = std::filesystem;
using formats::ModelSafetensors;
using formats::TensorType;

constexpr std::string_view kHeadName = "lm_head.weight";  // never has the prefix

// One tensor of a checkpoint: rows [first_row, first_row + rows) of a parameter. Every tensor
// counts as a matrix here: its rows are the first dimension, its columns all others.
struct Part {
  ParameterInfo parameter;  // or state
  std::string name;         // with its prefix
  int64_t first_row;
  int64_t rows;
  int64_t columns;
  bool transposed;
  std::vector<int64_t> stored_shape;
};

std::string WithPrefix(const CheckpointTable& table, const std::string& name) {
  return name == kHeadName ? name : table.prefix + name;
}

// Calls visit(name) for a pattern in each layer, or once when it has no *.
template <typename Visit>
void ForEachLayer(const std::string& pattern, int64_t layers, Visit visit) {
  const int64_t count = pattern.find('*') == pattern.npos ? 1 : layers;
  for (int64_t layer = 0; layer < count; ++layer) visit(layer);
}

// A scalar has one.
int64_t RowsOf(const ParameterInfo& parameter) {
  return parameter.shape.rank() == 0 ? 1 : parameter.shape.dim(0);
}

Part MakePart(const ParameterInfo& parameter, std::string name, int64_t first_row, int64_t rows,
              bool transposed) {
  const std::span<const int64_t> dims = parameter.shape.dims();
  const int64_t all_rows = RowsOf(parameter);
  if (rows == 0) rows = all_rows;
  Part part = {
      parameter,  std::move(name),           first_row, rows, parameter.shape.elements() / all_rows,
      transposed, {dims.begin(), dims.end()}};
  if (!dims.empty()) part.stored_shape[0] = rows;
  if (transposed && dims.size() == 2) std::swap(part.stored_shape[0], part.stored_shape[1]);
  return part;
}

// All tensors of a checkpoint of this model, in the order of the model's parameters; the tensors of
// one parameter are adjacent.
std::vector<Part> PartsOf(const Model& model) {
  const CheckpointTable table = model.checkpoint_table();
  std::map<std::string, std::pair<const CheckpointEntry*, int64_t>, std::less<>> entries;
  for (const CheckpointEntry& entry : table.entries) {
    ForEachLayer(entry.parameter, model.block_count(), [&](int64_t layer) {
      entries[ForLayer(entry.parameter, layer)] = {&entry, layer};
    });
  }
  std::vector<Part> parts;
  for (const ParameterInfo& parameter : model.Stored()) {
    const auto found = entries.find(parameter.name);
    if (found == entries.end()) {
      throw InternalError("parameter '" + parameter.name +
                          "' is in no row of the checkpoint table");
    }
    const auto& [entry, layer] = found->second;
    int64_t row = 0;
    for (const CheckpointTensor& tensor : entry->tensors) {
      parts.push_back(MakePart(parameter, WithPrefix(table, ForLayer(tensor.name, layer)), row,
                               tensor.rows, entry->transposed));
      row += parts.back().rows;
    }
    if (row != RowsOf(parameter)) {
      throw InternalError("parameter '" + parameter.name + "' is not covered by its tensors");
    }
  }
  return parts;
}

// Checkpoints of base models store the names without the prefix.
void DropMissingPrefix(const ModelSafetensors& file, const std::string& prefix,
                       std::vector<Part>& parts) {
  for (Part& part : parts) {
    if (part.name.compare(0, prefix.size(), prefix) != 0 || file.Find(part.name)) continue;
    const std::string bare = part.name.substr(prefix.size());
    if (file.Find(bare) != nullptr) part.name = bare;
  }
}

void CheckShapes(const ModelSafetensors& file, const std::vector<Part>& parts) {
  for (const Part& part : parts) {
    const formats::TensorEntry& entry = file.Require(part.name);
    if (entry.shape != part.stored_shape) {
      throw UserError(
          fmt::format("{}: tensor \"{}\" has shape {}, but config.json asks for {}: are "
                      "the two of the same model?",
                      file.path(), part.name, formats::ShapeText(entry.shape),
                      formats::ShapeText(part.stored_shape)));
    }
  }
}

void RefuseUnknown(const ModelSafetensors& file, const Model& model,
                   const std::vector<Part>& parts) {
  std::set<std::string> known;
  for (const Part& part : parts) known.insert(part.name);
  const CheckpointTable table = model.checkpoint_table();
  // A checkpoint may store a tied head, which repeats the token embedding.
  for (const CheckpointEntry& entry : table.entries) {
    const bool head = std::ranges::any_of(
        entry.tensors, [](const CheckpointTensor& tensor) { return tensor.name == kHeadName; });
    if (head) known.insert(std::string(kHeadName));
  }
  for (const std::string& pattern : table.ignored) {
    ForEachLayer(pattern, model.block_count(), [&](int64_t layer) {
      known.insert(ForLayer(pattern, layer));
      known.insert(table.prefix + ForLayer(pattern, layer));
    });
  }
  for (const std::string& name : file.Names()) {
    if (known.contains(name)) continue;
    throw UserError(
        fmt::format("{}: tensor \"{}\" has no place in the {} model with {} layers that "
                    "config.json describes: are the two of the same model?",
                    file.path(), formats::Printable(name), model.family(), model.block_count()));
  }
}

// to[c][r] = from[r][c], in tiles that stay in the first-level cache.
void Transpose(const float* from, int64_t rows, int64_t columns, float* to) {
  constexpr int64_t kTile = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const int64_t c1 = std::min(columns, c0 + kTile);
      for (int64_t r = r0; r < r1; ++r) {
        for (int64_t c = c0; c < c1; ++c) to[c * rows + r] = from[r * columns + c];
      }
    }
  }
}

// The tensors of a checkpoint file, after checking that the file matches the model.
std::vector<Part> PartsIn(const ModelSafetensors& file, const Model& model) {
  std::vector<Part> parts = PartsOf(model);
  DropMissingPrefix(file, model.checkpoint_table().prefix, parts);
  CheckShapes(file, parts);
  RefuseUnknown(file, model, parts);
  return parts;
}

// Takes a part's elements as they are stored.
using Take = FunctionRef<void(std::span<const float>)>;

void GiveStored(const Part& part, const float* elements, Take take) {
  const float* from = elements + part.first_row * part.columns;
  const auto count = static_cast<size_t>(part.rows * part.columns);
  if (!part.transposed) return take({from, count});
  std::vector<float> stored(count);
  Transpose(from, part.rows, part.columns, stored.data());
  take(stored);
}

// Infinities in place of such values would make another model.
void RequireWithinF16(const std::string& folder, const std::string& tensor,
                      std::span<const float> values) {
  constexpr float kFirstBeyond = 65520;  // is rounded to infinity
  for (const float value : values) {
    if (std::abs(value) < kFirstBeyond || !std::isfinite(value)) continue;
    throw UserError(
        fmt::format("{}: tensor \"{}\" has a value of {:g}, which fp16 cannot hold; "
                    "use bf16 or fp32",
                    folder, tensor, value));
  }
}

// `give` calls its last argument once.
void Write(const std::string& folder, const Model& model, const std::vector<Part>& parts,
           int64_t max_file_bytes, TensorType type, FunctionRef<void(const Part&, Take)> give) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw UserError(fmt::format("{}: cannot create this folder: {}", folder, error.message()));
  }
  std::map<std::string, const Part*> by_name;
  std::vector<formats::TensorSpec> specs;
  for (const Part& part : parts) {
    by_name[part.name] = &part;
    specs.push_back({part.name, type, part.stored_shape});
  }
  formats::WriteModelSafetensors(folder, specs, max_file_bytes,
                                 [&](const formats::TensorSpec& tensor, formats::TensorSink& sink) {
                                   give(*by_name.at(tensor.name),
                                        [&](std::span<const float> values) {
                                          if (type == TensorType::kF16)
                                            RequireWithinF16(folder, tensor.name, values);
                                          sink.WriteFloat32(values);
                                        });
                                 },
                                 {{"format", "pt"}});
  OutputFile config((fs::path(folder) / "config.json").string());
  config.Write(ConfigJson(model, type));
  config.Commit();
}

}  // namespace

struct WeightReader::Parts {
  Parts(const std::string& folder, const Model& model) : file(folder) {
    for (Part& part : PartsIn(file, model)) by_parameter[part.parameter.name].push_back(part);
  }

  ModelSafetensors file;
  std::map<std::string, std::vector<Part>, std::less<>> by_parameter;
};

WeightReader::WeightReader(const std::string& folder, const Model& model)
    : parts_(std::make_unique<Parts>(folder, model)) {}
WeightReader::~WeightReader() = default;

void WeightReader::Read(const ParameterInfo& parameter, float* to) const {
  for (const Part& part : parts_->by_parameter.at(parameter.name)) {
    const int64_t count = part.rows * part.columns;
    float* const rows = to + part.first_row * part.columns;
    if (!part.transposed) {
      parts_->file.ReadFloat32(part.name, rows, count);
      continue;
    }
    std::vector<float> stored(static_cast<size_t>(count));
    parts_->file.ReadFloat32(part.name, stored.data(), count);
    Transpose(stored.data(), part.columns, part.rows, rows);
  }
}

void LoadWeights(const std::string& folder, const Model& model,
                 FunctionRef<float*(const ParameterInfo&)> destination,
                 FunctionRef<void(const ParameterInfo&)> finished) {
  const WeightReader reader(folder, model);
  for (const ParameterInfo& parameter : model.Stored()) {
    reader.Read(parameter, destination(parameter));
    finished(parameter);
  }
}

void SaveWeights(const std::string& folder, const Model& model,
                 FunctionRef<const float*(const ParameterInfo&)> source, int64_t max_file_bytes,
                 TensorType type) {
  Write(folder, model, PartsOf(model), max_file_bytes, type,
        [&](const Part& part, Take take) { GiveStored(part, source(part.parameter), take); });
}

void CopyWeights(const std::string& from, const std::string& to, TensorType type) {
  const std::unique_ptr<Model> model = ModelFromHuggingFace(from);
  const ModelSafetensors file(from);
  std::vector<float> values;
  Write(to, *model, PartsIn(file, *model), kMaxCheckpointFileBytes, type,
        [&](const Part& part, Take take) {
          values.resize(static_cast<size_t>(part.rows * part.columns));
          file.ReadFloat32(part.name, values.data(), part.rows * part.columns);
          take(values);
        });
}

}  // namespace plimsoll::models

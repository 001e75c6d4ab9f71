// A model's parameters and states to and from safetensors files, one tensor at a time.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
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
#include "formats/foreign_files.h"
#include "formats/model_safetensors.h"
#include "formats/safetensors_writer.h"
#include "models/huggingface.h"

namespace plimsoll::models {
namespace {

namespace fs = std::filesystem;
using formats::ModelSafetensors;
using formats::TensorType;

// One tensor of a checkpoint: rows [first_row, first_row + rows) of a parameter. Every tensor
// counts as a matrix here: its rows are the first dimension, its columns all others.
struct Part {
  ParameterInfo parameter;  // or state
  std::string name;         // with its prefix
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t columns = 1;
  std::vector<int64_t> shape = {};  // of these rows
  std::vector<int> order = {};      // CheckpointEntry::order
  bool count = false;               // CheckpointEntry::count
  int leading_ones = 0;             // CheckpointEntry::leading_ones

  int64_t elements() const { return rows * columns; }
  std::vector<int64_t> StoredShape() const {
    if (count) return {};
    std::vector<int64_t> stored(static_cast<size_t>(leading_ones), 1);
    if (order.empty()) stored.insert(stored.end(), shape.begin(), shape.end());
    for (const int dimension : order) stored.push_back(shape[static_cast<size_t>(dimension)]);
    return stored;
  }
};

// A scalar has one.
int64_t RowsOf(const ParameterInfo& parameter) {
  return parameter.shape.rank() == 0 ? 1 : parameter.shape.dim(0);
}

Part MakePart(const ParameterInfo& parameter, std::string name, int64_t first_row, int64_t rows,
              const CheckpointEntry& entry) {
  const std::span<const int64_t> dims = parameter.shape.dims();
  const int64_t all_rows = RowsOf(parameter);
  Part part = {.parameter = parameter,
               .name = std::move(name),
               .first_row = first_row,
               .rows = rows == 0 ? all_rows : rows,
               .columns = parameter.shape.elements() / all_rows,
               .shape = {dims.begin(), dims.end()},
               .order = entry.order,
               .count = entry.count,
               .leading_ones = entry.leading_ones};
  if (!entry.view.empty()) part.shape = entry.view;
  if (!dims.empty()) part.shape[0] = part.rows;
  const bool fits = (part.order.empty() || part.order.size() == part.shape.size()) &&
                    (!part.count || part.elements() == 1);
  if (!fits) {
    throw InternalError("the checkpoint table has another form for '" + parameter.name +
                        "' than the parameter");
  }
  return part;
}

// All tensors of a checkpoint of this model, in the order of the model's parameters; the tensors of
// one parameter are adjacent.
std::vector<Part> PartsOf(const Model& model) {
  const CheckpointTable table = model.checkpoint_table();
  std::vector<Part> parts;
  for (const ParameterInfo& parameter : model.Stored()) {
    const CheckpointRow in_files = FindRow(table, parameter.name);
    int64_t row = 0;
    for (const CheckpointTensor& tensor : in_files.entry->tensors) {
      const std::string prefix = in_files.entry->bare ? "" : table.prefix;
      parts.push_back(
          MakePart(parameter, prefix + in_files.NameOf(tensor), row, tensor.rows, *in_files.entry));
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

// Parameters whose tensors a file lacks or has in another shape, where that is allowed.
struct Misfitting {
  std::set<std::string> fresh, fitted;
};

// Throws a UserError unless the file has all other parts in their shapes; of counts, those that it
// has.
Misfitting CheckShapes(const ModelSafetensors& file, const Model& model,
                       const std::vector<Part>& parts, Misfits misfits) {
  using Misfit = Model::Misfit;
  Misfitting misfitting;
  for (const Part& part : parts) {
    const formats::TensorEntry* const found = file.Find(part.name);
    if (found == nullptr && part.count) continue;
    if (found != nullptr && found->shape == part.StoredShape()) continue;
    const Misfit misfit =
        misfits == Misfits::kAllowed ? model.OnMisfit(part.parameter) : Misfit::kRefused;
    if (misfit == Misfit::kFresh) {
      misfitting.fresh.insert(part.parameter.name);
      continue;
    }
    if (misfit == Misfit::kFitted && found != nullptr) {
      misfitting.fitted.insert(part.parameter.name);
      continue;
    }
    throw UserError(
        fmt::format("{}: tensor \"{}\" has shape {}, but config.json asks for {}: are "
                    "the two of the same model?",
                    file.path(), part.name, formats::ShapeText(file.Require(part.name).shape),
                    formats::ShapeText(part.StoredShape())));
  }
  return misfitting;
}

void RefuseUnknown(const ModelSafetensors& file, const Model& model,
                   const std::vector<Part>& parts) {
  std::set<std::string> known;
  for (const Part& part : parts) known.insert(part.name);
  const CheckpointTable table = model.checkpoint_table();
  // A checkpoint may store a tied head, which repeats the token embedding.
  for (const CheckpointEntry& entry : table.entries) {
    if (!entry.bare) continue;
    for (const CheckpointTensor& tensor : entry.tensors) known.insert(tensor.name);
  }
  const auto ignored = [&](std::string_view name) {
    return std::ranges::any_of(table.ignored, [&](const std::string& pattern) {
      return MatchNumbers(pattern, name) || MatchNumbers(table.prefix + pattern, name);
    });
  };
  for (const std::string& name : file.Names()) {
    if (known.contains(name) || ignored(name)) continue;
    throw UserError(
        fmt::format("{}: tensor \"{}\" has no place in the {} that config.json describes: are the "
                    "two of the same model?",
                    file.path(), formats::Printable(name), model.title()));
  }
}

// to[c·to_stride + r] = from[r·from_stride + c], in tiles that stay in the first-level cache.
void Transpose(const float* from, int64_t rows, int64_t from_stride, int64_t columns,
               int64_t to_stride, float* to) {
  constexpr int64_t kTile = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    const int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      const int64_t c1 = std::min(columns, c0 + kTile);
      for (int64_t r = r0; r < r1; ++r) {
        for (int64_t c = c0; c < c1; ++c) to[c * to_stride + r] = from[r * from_stride + c];
      }
    }
  }
}

// The strides of a row-major tensor.
std::vector<int64_t> StridesOf(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

// Copies a tensor of `shape`; dimension i of the copy is the tensor's dimension order[i].
void Permute(const float* from, const std::vector<int64_t>& shape, const std::vector<int>& order,
             float* to) {
  const size_t rank = shape.size();
  std::vector<int64_t> to_shape;
  for (const int dimension : order) to_shape.push_back(shape[static_cast<size_t>(dimension)]);
  const std::vector<int64_t> from_strides = StridesOf(shape), strides_there = StridesOf(to_shape);
  std::vector<int64_t> to_strides(rank);  // by the tensor's dimensions
  for (size_t i = 0; i < rank; ++i) to_strides[static_cast<size_t>(order[i])] = strides_there[i];
  // The dimensions whose elements are neighbours here and there make matrices to transpose; the
  // others number the matrices.
  const size_t here = rank - 1, there = static_cast<size_t>(order[rank - 1]);
  const int64_t rows = here == there ? 1 : shape[there];
  int64_t matrices = 1;
  for (size_t i = 0; i < rank; ++i) matrices *= i == here || i == there ? 1 : shape[i];
  for (int64_t matrix = 0; matrix < matrices; ++matrix) {
    int64_t rest = matrix, from_offset = 0, to_offset = 0;
    for (size_t i = 0; i < rank; ++i) {
      if (i == here || i == there) continue;
      from_offset += rest % shape[i] * from_strides[i];
      to_offset += rest % shape[i] * to_strides[i];
      rest /= shape[i];
    }
    Transpose(from + from_offset, rows, from_strides[there], shape[here], to_strides[here],
              to + to_offset);
  }
}

// The permutation that undoes `order`.
std::vector<int> Inverse(const std::vector<int>& order) {
  std::vector<int> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    inverse[static_cast<size_t>(order[i])] = static_cast<int>(i);
  }
  return inverse;
}

// A checkpoint's file and its tensors, after checking that it matches the model.
struct OpenCheckpoint {
  OpenCheckpoint(const std::string& folder, const Model& model, Misfits misfits)
      : file(folder), parts(PartsOf(model)) {
    if (file.Find("tok_embeddings.weight") != nullptr) {
      formats::RefuseForeignModel(fs::path(file.path()).parent_path().string());
    }
    DropMissingPrefix(file, model.checkpoint_table().prefix, parts);
    misfitting = CheckShapes(file, model, parts, misfits);
    RefuseUnknown(file, model, parts);
  }

  // The elements of a part as they are stored.
  void ReadStored(const Part& part, float* to) const {
    if (!part.count) return file.ReadFloat32(part.name, to, part.elements());
    const formats::TensorEntry* const found = file.Find(part.name);
    *to = found == nullptr ? 0 : static_cast<float>(ReadCount(*found));
  }

  ModelSafetensors file;
  std::vector<Part> parts;
  Misfitting misfitting;

 private:
  int64_t ReadCount(const formats::TensorEntry& tensor) const {
    if (tensor.type != TensorType::kI64) {
      throw UserError(fmt::format("{}: tensor \"{}\" is a count, but of type {}; store it as I64",
                                  file.path(), tensor.name, formats::TypeName(tensor.type)));
    }
    int64_t count = 0;
    std::memcpy(&count, file.Raw(tensor.name).data(), sizeof(count));
    return count;
  }
};

// Takes a part's elements as they are stored.
using Take = FunctionRef<void(std::span<const float>)>;

void GiveStored(const Part& part, const float* elements, Take take) {
  const float* from = elements + part.first_row * part.columns;
  const auto count = static_cast<size_t>(part.elements());
  if (part.order.empty()) return take({from, count});
  std::vector<float> stored(count);
  Permute(from, part.shape, part.order, stored.data());
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
    specs.push_back({part.name, part.count ? TensorType::kI64 : type, part.StoredShape()});
  }
  formats::WriteModelSafetensors(folder, specs, max_file_bytes,
                                 [&](const formats::TensorSpec& tensor, formats::TensorSink& sink) {
                                   give(*by_name.at(tensor.name),
                                        [&](std::span<const float> values) {
                                          if (tensor.type == TensorType::kF16)
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
  Parts(const std::string& folder, const Model& of, Misfits misfits)
      : model(of), checkpoint(folder, of, misfits) {
    for (const Part& part : checkpoint.parts) by_parameter[part.parameter.name].push_back(part);
  }

  const Model& model;
  OpenCheckpoint checkpoint;
  std::map<std::string, std::vector<Part>, std::less<>> by_parameter;
};

WeightReader::WeightReader(const std::string& folder, const Model& model, Misfits misfits)
    : parts_(std::make_unique<Parts>(folder, model, misfits)) {}
WeightReader::~WeightReader() = default;

bool WeightReader::Has(const ParameterInfo& parameter) const {
  return !parts_->checkpoint.misfitting.fresh.contains(parameter.name);
}

void WeightReader::Read(const ParameterInfo& parameter, float* to) const {
  if (parts_->checkpoint.misfitting.fitted.contains(parameter.name)) {
    const formats::ModelSafetensors& file = parts_->checkpoint.file;
    const Part& part = parts_->by_parameter.at(parameter.name).front();
    const formats::TensorEntry& tensor = file.Require(part.name);
    int64_t elements = 1;
    for (const int64_t size : tensor.shape) elements *= size;
    std::vector<float> stored(static_cast<size_t>(elements));
    file.ReadFloat32(part.name, stored.data(), elements);
    return parts_->model.Fit(parameter, tensor.shape, stored, to);
  }
  for (const Part& part : parts_->by_parameter.at(parameter.name)) {
    float* const rows = to + part.first_row * part.columns;
    if (part.order.empty()) {
      parts_->checkpoint.ReadStored(part, rows);
      continue;
    }
    std::vector<float> stored(static_cast<size_t>(part.elements()));
    parts_->checkpoint.ReadStored(part, stored.data());
    std::vector<int64_t> shape = part.StoredShape();
    shape.erase(shape.begin(), shape.begin() + part.leading_ones);
    Permute(stored.data(), shape, Inverse(part.order), rows);
  }
}

std::vector<ParameterInfo> LoadWeights(const std::string& folder, const Model& model,
                                       FunctionRef<float*(const ParameterInfo&)> destination,
                                       FunctionRef<void(const ParameterInfo&)> finished,
                                       Misfits misfits) {
  const WeightReader reader(folder, model, misfits);
  std::vector<ParameterInfo> fresh;
  for (const ParameterInfo& parameter : model.Stored()) {
    if (!reader.Has(parameter)) {
      fresh.push_back(parameter);
      continue;
    }
    reader.Read(parameter, destination(parameter));
    finished(parameter);
  }
  return fresh;
}

void SaveWeights(const std::string& folder, const Model& model,
                 FunctionRef<const float*(const ParameterInfo&)> source, int64_t max_file_bytes,
                 TensorType type) {
  Write(folder, model, PartsOf(model), max_file_bytes, type,
        [&](const Part& part, Take take) { GiveStored(part, source(part.parameter), take); });
}

void CopyWeights(const std::string& from, const std::string& to, TensorType type) {
  const std::unique_ptr<Model> model = ModelFromHuggingFace(from);
  const OpenCheckpoint checkpoint(from, *model, Misfits::kRefused);
  std::vector<float> values;
  Write(to, *model, checkpoint.parts, kMaxCheckpointFileBytes, type,
        [&](const Part& part, Take take) {
          values.resize(static_cast<size_t>(part.elements()));
          checkpoint.ReadStored(part, values.data());
          take(values);
        });
}

}  // namespace plimsoll::models

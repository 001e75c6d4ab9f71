// The tensors in a checkpoint's files, and which part of a model's parameters each of them holds.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "formats/model_safetensors.h"
#include "models/huggingface.h"
#include "models/model.h"

namespace plimsoll::models {

// A tensor of a checkpoint, which holds rows [first_row, first_row + rows) of a parameter. Every
// tensor counts as a matrix here: its rows are its first dimension, its columns all other
// dimensions.
struct Part {
  ParameterInfo parameter;  // the parameter, or a state
  std::string name;         // the tensor's name, with its prefix
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t columns = 1;
  std::vector<int64_t> shape = {};       // shape of these rows
  std::vector<int> order = {};           // CheckpointEntry::order
  bool count = false;                    // CheckpointEntry::count
  int leading_ones = 0;                  // CheckpointEntry::leading_ones
  bool flat = false;                     // CheckpointEntry::flat
  std::vector<std::string> copies = {};  // CheckpointEntry::copies

  // Index of the part's first element in the parameter.
  int64_t first() const { return first_row * columns; }
  int64_t elements() const { return rows * columns; }
  std::vector<int64_t> StoredShape() const {
    if (count) return {};
    if (flat) return {elements()};
    std::vector<int64_t> stored(static_cast<size_t>(leading_ones), 1);
    if (order.empty()) stored.insert(stored.end(), shape.begin(), shape.end());
    for (const int dimension : order) stored.push_back(shape[static_cast<size_t>(dimension)]);
    return stored;
  }
  // Requires `order`. The distance between neighbouring stored elements in each dimension of
  // `shape`.
  std::vector<int64_t> StoredStrides() const;
};

// All tensors in a checkpoint of this model, in the order of the model's parameters; tensors of the
// same parameter are adjacent.
std::vector<Part> PartsOf(const Model& model);

// Calls `take` with a part's elements in their stored order, taken from `parameter`.
void GiveStored(const Part& part, const float* parameter,
                FunctionRef<void(std::span<const float>)> take);
// Copies a part's elements into `parameter`; `read` writes them in their stored order.
void TakeStored(const Part& part, FunctionRef<void(float*)> read, float* parameter);

// Parameters whose tensors a file lacks (`fresh`) or has in another shape (`fitted`), if that is
// allowed.
struct Misfitting {
  std::set<std::string> fresh, fitted;
};

// A checkpoint's open files, and its tensors. The constructor throws a UserError unless they match
// the model in names, shapes and types.
class OpenCheckpoint {
 public:
  // The parameters in `left_out` are neither required nor read.
  OpenCheckpoint(const std::string& folder, const Model& model, Misfits misfits,
                 const std::set<std::string>& left_out = {});

  // Reads the elements of a part in their stored order.
  void ReadStored(const Part& part, float* to) const;
  // Reads a parameter of misfitting.fitted, which consists of this part only.
  void ReadFitted(const Part& part, float* to) const;
  // Returns the parameters of misfitting.fresh, in the model's order.
  std::vector<ParameterInfo> Fresh() const;

  const Model& model;
  formats::ModelSafetensors file;
  std::vector<Part> parts;
  Misfitting misfitting;

 private:
  int64_t ReadCount(const formats::TensorEntry& tensor) const;
};

}  // namespace plimsoll::models

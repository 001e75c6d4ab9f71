// The tensors of a checkpoint's files, and what of a model's parameters each of them holds.
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

// One tensor of a checkpoint: rows [first_row, first_row + rows) of a parameter. Every tensor
// counts as a matrix here: its rows are the first dimension, its columns all others.
struct Part {
  ParameterInfo parameter;  // or state
  std::string name;         // with its prefix
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t columns = 1;
  std::vector<int64_t> shape = {};       // of these rows
  std::vector<int> order = {};           // CheckpointEntry::order
  bool count = false;                    // CheckpointEntry::count
  int leading_ones = 0;                  // CheckpointEntry::leading_ones
  bool flat = false;                     // CheckpointEntry::flat
  std::vector<std::string> copies = {};  // CheckpointEntry::copies

  int64_t first() const { return first_row * columns; }  // its first element, of the parameter's
  int64_t elements() const { return rows * columns; }
  std::vector<int64_t> StoredShape() const {
    if (count) return {};
    if (flat) return {elements()};
    std::vector<int64_t> stored(static_cast<size_t>(leading_ones), 1);
    if (order.empty()) stored.insert(stored.end(), shape.begin(), shape.end());
    for (const int dimension : order) stored.push_back(shape[static_cast<size_t>(dimension)]);
    return stored;
  }
  // With `order`: how far apart the stored elements are in each dimension of `shape`.
  std::vector<int64_t> StoredStrides() const;
};

// All tensors of a checkpoint of this model, in the order of the model's parameters; the tensors of
// one parameter are adjacent.
std::vector<Part> PartsOf(const Model& model);

// Calls `take` with a part's elements as they are stored, given its parameter's elements.
void GiveStored(const Part& part, const float* parameter,
                FunctionRef<void(std::span<const float>)> take);
// Puts a part's elements into its parameter's; `read` writes them as they are stored.
void TakeStored(const Part& part, FunctionRef<void(float*)> read, float* parameter);

// Parameters whose tensors a file lacks or has in another shape, where that is allowed.
struct Misfitting {
  std::set<std::string> fresh, fitted;
};

// A checkpoint's files and its tensors. UserError unless they match the model, in names, shapes and
// types.
class OpenCheckpoint {
 public:
  // Without the parameters in `left_out`, whatever the files have of them.
  OpenCheckpoint(const std::string& folder, const Model& model, Misfits misfits,
                 const std::set<std::string>& left_out = {});

  // The elements of a part as they are stored.
  void ReadStored(const Part& part, float* to) const;
  // A parameter of misfitting.fitted, whose one part this is.
  void ReadFitted(const Part& part, float* to) const;
  // The parameters of misfitting.fresh, in the model's order.
  std::vector<ParameterInfo> Fresh() const;

  const Model& model;
  formats::ModelSafetensors file;
  std::vector<Part> parts;
  Misfitting misfitting;

 private:
  int64_t ReadCount(const formats::TensorEntry& tensor) const;
};

}  // namespace plimsoll::models

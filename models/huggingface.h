// Checkpoint folders as Hugging Face's transformers reads and writes them: config.json and
// model.safetensors, or shards with an index.
//
// A folder that asks for something a family's models cannot do is refused; nothing is ignored.
// Errors are UserErrors naming the file and the key or tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/staging.h"
#include "base/thread_pool.h"
#include "formats/json.h"
#include "formats/safetensors.h"
#include "graph/typed_elements.h"
#include "models/model.h"

namespace plimsoll::models {

// Makes the model that FOLDER/config.json describes, in the form of any version of transformers or
// as Model::WriteConfig writes it. Doesn't look at the folder's weights. `settings`: see
// Family::read_config.
std::unique_ptr<Model> ModelFromHuggingFace(const std::string& folder, Settings& settings);
std::unique_ptr<Model> ModelFromHuggingFace(const std::string& folder);
std::unique_ptr<Model> ModelFromConfig(const formats::JsonObject& config, Settings& settings);

// The config.json of this model with weights of `type` (F32, BF16 or F16), in the form that all
// versions of transformers load.
std::string ConfigJson(const Model& model, formats::TensorType type = formats::TensorType::kF32);

// What a folder has to hold of parameters that a model can make otherwise (Model::OnMisfit).
enum class Misfits {
  kRefused,  // all of them, in the model's shapes
  kFitted,   // all of them; those that can be fitted, in any shape
  kAllowed,  // anything
};

// Reads parameters one by one, in any order, as float32. The constructor checks all names and
// shapes. The model must outlive the reader.
class WeightReader {
 public:
  // `left_out`: parameters that another file holds, which need not be in this one and are not read.
  WeightReader(const std::string& folder, const Model& model, Misfits misfits = Misfits::kRefused,
               const std::set<std::string>& left_out = {});
  ~WeightReader();
  // False of a parameter that has to start afresh.
  bool Has(const ParameterInfo& parameter) const;
  // Writes parameter.shape.elements() floats to `to`.
  void Read(const ParameterInfo& parameter, float* to) const;

 private:
  struct Parts;
  std::unique_ptr<const Parts> parts_;
};

// Elements begin to end - 1 of a parameter, row-major.
struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Takes consecutive elements of a parameter, from number `first` on, in f32, bf16 or f16.
using TakeElements = FunctionRef<void(const ParameterInfo& parameter, int64_t first,
                                      const graph::TypedElements& elements)>;

struct LoadOptions {
  Misfits misfits = Misfits::kRefused;
  // Names of parameters that another file holds: they need not be in this one and are not read.
  std::set<std::string> left_out = {};
  // The elements of a parameter that are to be read, in ascending order; those of small gaps in
  // between are read, too. Empty: all of all parameters.
  std::function<std::vector<ElementRange>(const ParameterInfo&)> wanted = {};
};

// Reads the parameters in pieces, in the order of the files, on the pool's threads. `take` is
// called by several of them at a time, once for each element; the elements are in the type of the
// file and in one of the buffers, each of which has room for at least 8 bytes. All names, shapes
// and types are checked before the first element is read; a file that was written meanwhile is an
// error. Returns the parameters that have to start afresh, which are not read.
//
// Besides the buffers it holds tensors that are stored in another order than their parameter, at
// most kMostPermutedBytes of them at a time, or a single one.
inline constexpr int64_t kMostPermutedBytes = int64_t{256} << 20;
std::vector<ParameterInfo> LoadWeights(const std::string& folder, const Model& model,
                                       std::span<const StagingBuffer> buffers, ThreadPool& pool,
                                       TakeElements take, const LoadOptions& options = {});

// The parameters that would start afresh if training of this model started from the folder. Of
// weights only names and shapes are read; a folder without weights has none to miss. The errors of
// LoadWeights with Misfits::kAllowed.
std::vector<ParameterInfo> FreshParameters(const std::string& folder, const Model& model);

// A checksum of all tensors, by name, type, shape and numbers; how they are divided among files
// does not matter. Of checkpoints above 2 GiB it reads 16 pieces of 64 KiB of each larger tensor,
// 300 MiB of an 8 GB model: further training, which changes nearly every number, changes the text;
// a change of a few rows of an embedding may not. Against chance, not against intent.
std::string WeightsChecksum(const std::string& folder);

// Writes model.safetensors (as shards, if it would be larger than `max_file_bytes`) and, last,
// config.json into `folder`, which is created if need be; each file appears whole or not at all.
// `source` returns a parameter's elements, which must stay valid until it is asked for the next
// parameter. They are rounded to `type`: F32, BF16 or F16, counts but to I64; a UserError names a
// tensor with a value beyond F16's range.
inline constexpr int64_t kMaxCheckpointFileBytes = int64_t{50} * 1000 * 1000 * 1000;
void SaveWeights(const std::string& folder, const Model& model,
                 FunctionRef<const float*(const ParameterInfo&)> source,
                 int64_t max_file_bytes = kMaxCheckpointFileBytes,
                 formats::TensorType type = formats::TensorType::kF32);

// Writes the checkpoint in `from` as SaveWeights does; holds one tensor at a time.
void CopyWeights(const std::string& from, const std::string& to, formats::TensorType type);

}  // namespace plimsoll::models

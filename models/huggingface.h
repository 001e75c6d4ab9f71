// Checkpoint folders as Hugging Face's transformers reads and writes them: config.json and
// model.safetensors, or shards with an index.
//
// A folder that asks for something a family's models cannot do is refused; nothing is ignored.
// UserErrors name the file and the key or tensor.
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
// in that of Model::WriteConfig. Does not read the folder's weights. `settings`: see
// Family::read_config.
std::unique_ptr<Model> ModelFromHuggingFace(const std::string& folder, Settings& settings);
std::unique_ptr<Model> ModelFromHuggingFace(const std::string& folder);
std::unique_ptr<Model> ModelFromConfig(const formats::JsonObject& config, Settings& settings);

// Returns the config.json of this model with weights of `type` (F32, BF16 or F16), in a form that
// all versions of transformers load.
std::string ConfigJson(const Model& model, formats::TensorType type = formats::TensorType::kF32);

// Which parameters a folder may lack or have in another shape, if the model can make them otherwise
// (Model::OnMisfit).
enum class Misfits {
  kRefused,  // none: all must exist in the model's shapes
  kFitted,   // all must exist; those that Model::Fit can convert may have another shape
  kAllowed,  // any of them
};

// Reads parameters one by one, in any order, as float32. The constructor checks all names and
// shapes. The model must outlive the reader.
class WeightReader {
 public:
  // `left_out`: parameters that another file holds; this folder need not have them, and they are
  // not read.
  WeightReader(const std::string& folder, const Model& model, Misfits misfits = Misfits::kRefused,
               const std::set<std::string>& left_out = {});
  ~WeightReader();
  // Returns false for a parameter that must be newly initialised.
  bool Has(const ParameterInfo& parameter) const;
  // Writes the parameter to `to`: parameter.shape.elements() floats.
  void Read(const ParameterInfo& parameter, float* to) const;

 private:
  struct Parts;
  std::unique_ptr<const Parts> parts_;
};

// Elements [begin, end) of a parameter, row-major.
struct ElementRange {
  int64_t begin = 0;
  int64_t end = 0;
};

// Receives consecutive elements of a parameter, starting at number `first`, in f32, bf16 or f16.
using TakeElements = FunctionRef<void(const ParameterInfo& parameter, int64_t first,
                                      const graph::TypedElements& elements)>;

struct LoadOptions {
  Misfits misfits = Misfits::kRefused;
  // Names of parameters that another file holds; this folder need not have them, and they are not
  // read.
  std::set<std::string> left_out = {};
  // Returns the elements of a parameter to read, in ascending order; small gaps between them are
  // read, too. Empty: all elements of all parameters are read.
  std::function<std::vector<ElementRange>(const ParameterInfo&)> wanted = {};
};

// Reads the parameters in pieces, in the order of the files, on the pool's threads. Several threads
// call `take` at the same time, once for each element; the elements are in the file's type and in
// one of the buffers, each of which holds at least 8 bytes. All names, shapes and types are checked
// before the first element is read. A file that changes meanwhile is an error. Returns the
// parameters that must be newly initialised, which are not read.
//
// In addition to the buffers, the function allocates memory for tensors that are stored in another
// order than their parameter: at most kMostPermutedBytes at a time, or a single tensor.
inline constexpr int64_t kMostPermutedBytes = int64_t{256} << 20;
std::vector<ParameterInfo> LoadWeights(const std::string& folder, const Model& model,
                                       std::span<const StagingBuffer> buffers, ThreadPool& pool,
                                       TakeElements take, const LoadOptions& options = {});

// The parameters that would be newly initialised if training of this model started from the folder.
// Only names and shapes of the weights are read; the result is empty for a folder without weights.
// Throws the errors of LoadWeights with Misfits::kAllowed.
std::vector<ParameterInfo> FreshParameters(const std::string& folder, const Model& model);

// A checksum of all tensors: their names, types, shapes and values, but not their division into
// files. In checkpoints above 2 GiB it reads only 16 pieces of 64 KiB from each larger tensor, 300
// MiB of an 8 GB model. Further training changes nearly every value and so the checksum; a change
// of a few rows of an embedding may go unnoticed. The checksum protects against accidents, not
// against intent.
std::string WeightsChecksum(const std::string& folder);

// Writes model.safetensors (as shards, if it would be larger than `max_file_bytes`) and, last,
// config.json into `folder`, which is created if necessary. Each file is written atomically.
// `source` returns a parameter's elements, which must stay valid until the next call. They are
// rounded to `type`, F32, BF16 or F16; counts become I64. A UserError names a tensor with a value
// beyond F16's range.
inline constexpr int64_t kMaxCheckpointFileBytes = int64_t{50} * 1000 * 1000 * 1000;
void SaveWeights(const std::string& folder, const Model& model,
                 FunctionRef<const float*(const ParameterInfo&)> source,
                 int64_t max_file_bytes = kMaxCheckpointFileBytes,
                 formats::TensorType type = formats::TensorType::kF32);

// Copies the checkpoint in `from` as SaveWeights writes it; holds one tensor in memory at a time.
void CopyWeights(const std::string& from, const std::string& to, formats::TensorType type);

}  // namespace plimsoll::models

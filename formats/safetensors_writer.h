// Writes safetensors files. All tensors are declared first; then their data is requested tensor by
// tensor, so that a checkpoint is never in memory twice. Writes are atomic: a file appears complete
// or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "formats/safetensors.h"

namespace plimsoll {
class OutputFile;
}

namespace plimsoll::formats {

struct TensorSpec {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;
};

// Receives the data of one tensor, in pieces of any size.
class TensorSink {
 public:
  TensorSink(OutputFile& file, TensorType type, int64_t bytes)
      : file_(file), type_(type), missing_(bytes) {}

  // Writes bytes without conversion.
  void Write(std::span<const std::byte> bytes);
  // Writes elements, converted to the tensor's type: to F32, F64, F16 and BF16 with rounding to
  // nearest even, to I64 with rounding to the nearest integer.
  void WriteFloat32(std::span<const float> values);

  int64_t missing() const { return missing_; }  // bytes still to be written

 private:
  OutputFile& file_;
  TensorType type_;
  int64_t missing_;
};

// Writes one tensor; it is called once for each tensor, and must write exactly the tensor's bytes.
using TensorWriter = std::function<void(const TensorSpec&, TensorSink&)>;

using Metadata = std::map<std::string, std::string>;  // the header's member "__metadata__"

// The beginning of the file that WriteSafetensors writes: the header's length and the header.
std::string SafetensorsHeader(const std::vector<TensorSpec>& tensors,
                              const Metadata& metadata = {});

// Stores tensors sorted by element size, large to small, and otherwise in the given order; `write`
// is called in that order. This aligns each tensor to its element size. Hugging Face needs the
// metadata {"format": "pt"}.
void WriteSafetensors(const std::string& path, const std::vector<TensorSpec>& tensors,
                      const TensorWriter& write, const Metadata& metadata = {});

// Writes model.safetensors into `folder`. If the data exceeds `max_file_bytes`, writes the shards
// model-00001-of-0000N.safetensors and, last, model.safetensors.index.json. Shards hold tensors in
// the given order; only a shard with a single tensor may exceed `max_file_bytes`. Throws a
// UserError if `folder` contains a model.safetensors, which readers would prefer to the shards.
void WriteModelSafetensors(const std::string& folder, const std::vector<TensorSpec>& tensors,
                           int64_t max_file_bytes, const TensorWriter& write,
                           const Metadata& metadata = {});

}  // namespace plimsoll::formats

// Writes safetensors files: all tensors are declared first, then their data is requested tensor by
// tensor, so that a checkpoint is never in memory twice. Files appear whole or not at all.
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

// Takes the data of one tensor, in pieces of any size.
class TensorSink {
 public:
  TensorSink(OutputFile& file, TensorType type, int64_t bytes)
      : file_(file), type_(type), missing_(bytes) {}

  // Writes bytes as they are.
  void Write(std::span<const std::byte> bytes);
  // Elements, converted to the tensor's type: F32, F64, F16 and BF16 to nearest even, I64
  // to the nearest whole number.
  void WriteFloat32(std::span<const float> values);

  int64_t missing() const { return missing_; }  // bytes still to be written

 private:
  OutputFile& file_;
  TensorType type_;
  int64_t missing_;
};

// Called once for each tensor; must write exactly its bytes.
using TensorWriter = std::function<void(const TensorSpec&, TensorSink&)>;

using Metadata = std::map<std::string, std::string>;  // the header's "__metadata__"

// The first bytes of the file that WriteSafetensors writes: the header's length and the header.
std::string SafetensorsHeader(const std::vector<TensorSpec>& tensors,
                              const Metadata& metadata = {});

// Tensors are stored, and `write` is called, by element size from large to small and otherwise in
// the order given, which aligns each tensor to its element size. Hugging Face needs the metadata
// {"format": "pt"}.
void WriteSafetensors(const std::string& path, const std::vector<TensorSpec>& tensors,
                      const TensorWriter& write, const Metadata& metadata = {});

// Writes model.safetensors into `folder`, or, when the data exceeds `max_file_bytes`, the shards
// model-00001-of-0000N.safetensors and, last, model.safetensors.index.json. A shard holds tensors
// in the order given, and more than `max_file_bytes` of data only if a single tensor has more.
// Throws UserError if `folder` contains a model.safetensors that would hide the shards from
// readers.
void WriteModelSafetensors(const std::string& folder, const std::vector<TensorSpec>& tensors,
                           int64_t max_file_bytes, const TensorWriter& write,
                           const Metadata& metadata = {});

}  // namespace plimsoll::formats

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/fnv1a.h"
#include "formats/model_safetensors.h"
#include "models/huggingface.h"

namespace plimsoll::models {
namespace {

using formats::ModelSafetensors;
using formats::TensorEntry;

// In a checkpoint with more bytes than kMostBytes, only pieces of each tensor are read.
constexpr int64_t kMostBytes = int64_t{2} << 30;
constexpr int64_t kPieces = 16, kPieceBytes = int64_t{64} << 10;
constexpr int64_t kBufferBytes = int64_t{1} << 20;

uint32_t ChecksumOf(const formats::SafetensorsReader& file, const TensorEntry& tensor,
                    bool in_pieces, std::vector<std::byte>& buffer) {
  uint32_t crc = 0;
  const auto add = [&](int64_t at, int64_t bytes) {
    const std::span<std::byte> some = std::span(buffer).first(static_cast<size_t>(bytes));
    file.Read(tensor, at, some);
    crc = Crc32c(some, crc);
  };
  if (!in_pieces || tensor.bytes <= kPieces * kPieceBytes) {
    for (int64_t at = 0; at < tensor.bytes; at += kBufferBytes) {
      add(at, std::min(kBufferBytes, tensor.bytes - at));
    }
    return crc;
  }
  // The first piece is at the tensor's beginning, the last one at its end.
  const int64_t last = tensor.bytes - kPieceBytes;
  for (int64_t i = 0; i < kPieces; ++i) add(last * i / (kPieces - 1), kPieceBytes);
  return crc;
}

}  // namespace

std::string WeightsChecksum(const std::string& folder) {
  const ModelSafetensors file(folder);
  const std::vector<std::string> names = file.Names();
  int64_t bytes = 0;
  for (const std::string& name : names) bytes += file.Require(name).bytes;
  std::vector<std::byte> buffer(static_cast<size_t>(kBufferBytes));
  uint64_t sum = kFnv1a;
  for (const std::string& name : names) {
    const TensorEntry& tensor = file.Require(name);
    const uint32_t crc = ChecksumOf(file.Shard(name), tensor, bytes > kMostBytes, buffer);
    sum = Fnv1a(fmt::format("{} {} {} {:08x}\n", name, formats::TypeName(tensor.type),
                            formats::ShapeText(tensor.shape), crc),
                sum);
  }
  return fmt::format("1-{:016x}", sum);
}

}  // namespace plimsoll::models

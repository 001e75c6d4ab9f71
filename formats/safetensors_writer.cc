#include "formats/safetensors_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/low_precision.h"
#include "base/output_file.h"
#include "formats/json.h"

namespace plimsoll::formats {
namespace {

using Json = nlohmann::json;

int64_t SpecBytes(const TensorSpec& tensor) {
  const std::optional<int64_t> elements = CountElements(tensor.shape);
  if (!elements || *elements > std::numeric_limits<int64_t>::max() / TypeBytes(tensor.type)) {
    throw InternalError(fmt::format("safetensors: tensor \"{}\" of shape {} has no size",
                                    tensor.name, ShapeText(tensor.shape)));
  }
  return *elements * TypeBytes(tensor.type);
}

std::vector<const TensorSpec*> WritingOrder(const std::vector<TensorSpec>& tensors) {
  std::vector<const TensorSpec*> order;
  for (const TensorSpec& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(), [](const TensorSpec* a, const TensorSpec* b) {
    return TypeBytes(a->type) > TypeBytes(b->type);
  });
  return order;
}

// Converts in pieces that fit on the stack.
template <typename Element, typename Convert>
void WriteConverted(TensorSink& sink, std::span<const float> values, Convert convert) {
  std::array<Element, 1024> piece;
  while (!values.empty()) {
    const size_t count = std::min(values.size(), piece.size());
    std::transform(values.begin(), values.begin() + static_cast<ptrdiff_t>(count), piece.begin(),
                   convert);
    sink.Write(std::as_bytes(std::span(piece).first(count)));
    values = values.subspan(count);
  }
}

}  // namespace

void TensorSink::Write(std::span<const std::byte> bytes) {
  missing_ -= static_cast<int64_t>(bytes.size());
  if (missing_ < 0) throw InternalError("safetensors: more data than the tensor's shape holds");
  file_.Write(bytes);
}

void TensorSink::WriteFloat32(std::span<const float> values) {
  switch (type_) {
    case TensorType::kF32:
      Write(std::as_bytes(values));
      break;
    case TensorType::kF64:
      WriteConverted<double>(*this, values, [](float x) { return double{x}; });
      break;
    case TensorType::kF16:
      WriteConverted<uint16_t>(*this, values, ToF16);
      break;
    case TensorType::kBf16:
      WriteConverted<uint16_t>(*this, values, ToBf16);
      break;
    case TensorType::kI64:
      WriteConverted<int64_t>(*this, values, [](float x) { return std::llround(x); });
      break;
    default:
      throw InternalError(
          fmt::format("safetensors: float32 cannot be written as {}", TypeName(type_)));
  }
}

std::string SafetensorsHeader(const std::vector<TensorSpec>& tensors, const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t offset = 0;
  for (const TensorSpec* tensor : WritingOrder(tensors)) {
    if (header.contains(tensor->name) || tensor->name == "__metadata__") {
      throw InternalError(fmt::format("safetensors: tensor \"{}\" declared twice", tensor->name));
    }
    const int64_t end = offset + SpecBytes(*tensor);
    header[tensor->name] = {{"dtype", TypeName(tensor->type)},
                            {"shape", tensor->shape},
                            {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts at a multiple of 8
  std::string length(8, '\0');
  for (size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<char>((uint64_t{text.size()} >> (8 * i)) & 0xff);
  }
  return length + text;
}

void WriteSafetensors(const std::string& path, const std::vector<TensorSpec>& tensors,
                      const TensorWriter& write, const Metadata& metadata) {
  const std::string header = SafetensorsHeader(tensors, metadata);
  OutputFile file(path);
  file.Write(header);
  for (const TensorSpec* tensor : WritingOrder(tensors)) {
    TensorSink sink(file, tensor->type, SpecBytes(*tensor));
    write(*tensor, sink);
    if (sink.missing() != 0) {
      throw InternalError(fmt::format("safetensors: tensor \"{}\": {} bytes were not written",
                                      tensor->name, sink.missing()));
    }
  }
  file.Commit();
}

void WriteModelSafetensors(const std::string& folder, const std::vector<TensorSpec>& tensors,
                           int64_t max_file_bytes, const TensorWriter& write,
                           const Metadata& metadata) {
  std::vector<std::vector<TensorSpec>> shards(1);
  int64_t total_bytes = 0;
  int64_t shard_bytes = 0;
  std::set<std::string> names;
  for (const TensorSpec& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw InternalError(fmt::format("safetensors: tensor \"{}\" declared twice", tensor.name));
    }
    const int64_t bytes = SpecBytes(tensor);
    if (!shards.back().empty() && shard_bytes + bytes > max_file_bytes) {
      shards.emplace_back();
      shard_bytes = 0;
    }
    shards.back().push_back(tensor);
    shard_bytes += bytes;
    total_bytes += bytes;
  }

  const std::string single = (std::filesystem::path(folder) / "model.safetensors").string();
  if (shards.size() == 1) {
    WriteSafetensors(single, tensors, write, metadata);
    return;
  }
  if (std::filesystem::exists(single)) {
    throw UserError(single +
                    ": readers would take this file and not the shards to be written next to it; "
                    "remove it or choose another folder");
  }
  Json weight_map = Json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    WriteSafetensors((std::filesystem::path(folder) / file).string(), shards[i], write, metadata);
    for (const TensorSpec& tensor : shards[i]) weight_map[tensor.name] = file;
  }
  OutputFile index((std::filesystem::path(folder) / "model.safetensors.index.json").string());
  const Json content = {{"metadata", {{"total_size", total_bytes}}}, {"weight_map", weight_map}};
  index.Write(content.dump(2) + "\n");
  index.Commit();
}

}  // namespace plimsoll::formats

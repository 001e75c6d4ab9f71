#include "formats/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "base/low_precision.h"
#include "formats/json.h"

namespace plimsoll::formats {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr int64_t kMaxInt64 = std::numeric_limits<int64_t>::max();

struct TypeRow {
  TensorType type;
  std::string_view name;
  int64_t bytes;
};

constexpr std::array<TypeRow, 15> kTypes = {{
    {TensorType::kBool, "BOOL", 1},
    {TensorType::kU8, "U8", 1},
    {TensorType::kI8, "I8", 1},
    {TensorType::kF8E5M2, "F8_E5M2", 1},
    {TensorType::kF8E4M3, "F8_E4M3", 1},
    {TensorType::kI16, "I16", 2},
    {TensorType::kU16, "U16", 2},
    {TensorType::kF16, "F16", 2},
    {TensorType::kBf16, "BF16", 2},
    {TensorType::kI32, "I32", 4},
    {TensorType::kU32, "U32", 4},
    {TensorType::kF32, "F32", 4},
    {TensorType::kF64, "F64", 8},
    {TensorType::kI64, "I64", 8},
    {TensorType::kU64, "U64", 8},
}};

const TypeRow& Row(TensorType type) { return kTypes[static_cast<size_t>(type)]; }

[[noreturn]] void FailFile(const std::string& file, const std::string& reason) {
  throw UserError(fmt::format("{}: {}; the file is damaged or incomplete, fetch or write it again",
                              file, reason));
}

[[noreturn]] void FailTensor(const std::string& file, std::string_view tensor,
                             const std::string& reason) {
  FailFile(file, fmt::format("tensor \"{}\": {}", Printable(tensor), reason));
}

// Reads an integer of a shape or an offset pair; nullopt for any other value.
std::optional<int64_t> AsSize(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const uint64_t number = value.get<uint64_t>();
  if (number > static_cast<uint64_t>(kMaxInt64)) return std::nullopt;
  return static_cast<int64_t>(number);
}

// Parses a header entry and checks it by itself: its types, its sizes, and that its range is within
// the data.
TensorEntry ParseEntry(const std::string& file, const std::string& name, const Json& entry,
                       int64_t data_bytes) {
  const auto fail = [&](const std::string& reason) { FailTensor(file, name, reason); };
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") ||
      !entry.contains("shape") || !entry.contains("data_offsets")) {
    fail("expected an object with dtype, shape and data_offsets");
  }
  const Json& dtype = entry["dtype"];
  const Json& shape = entry["shape"];
  const Json& offsets = entry["data_offsets"];

  TensorEntry tensor;
  tensor.name = name;
  if (!dtype.is_string()) fail("dtype is not a string");
  const std::optional<TensorType> type = ParseTypeName(dtype.get_ref<const std::string&>());
  if (!type) {
    throw UserError(fmt::format("{}: tensor \"{}\": dtype {} is unknown; convert it to F32 or BF16",
                                file, Printable(name), Printable(dtype.get<std::string>())));
  }
  tensor.type = *type;

  if (!shape.is_array()) fail("shape is not an array");
  for (const Json& dimension : shape) {
    const std::optional<int64_t> size = AsSize(dimension);
    if (!size) fail("shape holds something other than sizes");
    tensor.shape.push_back(*size);
  }
  const std::optional<int64_t> elements = CountElements(tensor.shape);
  if (!elements || *elements > kMaxInt64 / TypeBytes(tensor.type)) {
    fail(fmt::format("shape {} is too large to address", Printable(ShapeText(tensor.shape))));
  }
  tensor.elements = *elements;
  tensor.bytes = *elements * TypeBytes(tensor.type);

  const std::optional<int64_t> begin =
      offsets.is_array() && offsets.size() == 2 ? AsSize(offsets[0]) : std::nullopt;
  const std::optional<int64_t> end = begin ? AsSize(offsets[1]) : std::nullopt;
  if (!end) fail("data_offsets is not a pair of offsets");
  if (*begin > *end) fail(fmt::format("data_offsets [{}, {}] run backwards", *begin, *end));
  if (*end > data_bytes) {
    fail(fmt::format("data_offsets [{}, {}] pass the end of the {} bytes of data", *begin, *end,
                     data_bytes));
  }
  if (*end - *begin != tensor.bytes) {
    fail(fmt::format("data_offsets [{}, {}] hold {} bytes, but {} {} takes {}", *begin, *end,
                     *end - *begin, TypeName(tensor.type), Printable(ShapeText(tensor.shape)),
                     tensor.bytes));
  }
  tensor.begin = *begin;
  return tensor;
}

// Checks that the tensors' ranges cover the data exactly: no gap, no overlap.
void CheckCoverage(const std::string& file, const std::vector<TensorEntry>& tensors,
                   int64_t data_bytes) {
  std::vector<const TensorEntry*> by_offset;
  for (const TensorEntry& tensor : tensors) by_offset.push_back(&tensor);
  std::sort(by_offset.begin(), by_offset.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return a->begin != b->begin ? a->begin < b->begin : a->bytes < b->bytes;
  });
  int64_t covered = 0;
  for (const TensorEntry* tensor : by_offset) {
    if (tensor->begin < covered) FailTensor(file, tensor->name, "overlaps another tensor");
    if (tensor->begin > covered) {
      FailTensor(
          file, tensor->name,
          fmt::format("begins at {}, but the data before it ends at {}", tensor->begin, covered));
    }
    covered += tensor->bytes;
  }
  if (covered != data_bytes) {
    FailFile(file,
             fmt::format("the tensors take {}, but {} of data {} there", Counted(covered, "byte"),
                         Counted(data_bytes, "byte"), data_bytes == 1 ? "is" : "are"));
  }
}

template <typename Element, typename Convert>
void ConvertElements(std::span<const std::byte> bytes, float* out, Convert convert) {
  for (size_t i = 0; i < bytes.size() / sizeof(Element); ++i) {
    Element element;  // memcpy, since the data may be unaligned
    std::memcpy(&element, bytes.data() + i * sizeof(Element), sizeof(Element));
    out[i] = convert(element);
  }
}

}  // namespace

int64_t TypeBytes(TensorType type) { return Row(type).bytes; }

std::string_view TypeName(TensorType type) { return Row(type).name; }

std::optional<TensorType> ParseTypeName(std::string_view name) {
  for (const TypeRow& row : kTypes) {
    if (row.name == name) return row.type;
  }
  return std::nullopt;
}

std::string ShapeText(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t size : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(size);
  }
  return text + "]";
}

std::optional<int64_t> CountElements(std::span<const int64_t> shape) {
  int64_t elements = 1;
  bool empty = false;  // a dimension is 0, so there are no elements
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    empty = empty || size == 0;
  }
  if (empty) return 0;
  for (const int64_t size : shape) {
    if (elements > kMaxInt64 / size) return std::nullopt;
    elements *= size;
  }
  return elements;
}

SafetensorsReader::SafetensorsReader(const std::string& path)
    : SafetensorsReader(RandomAccessFile(path)) {}

SafetensorsReader::SafetensorsReader(RandomAccessFile file)
    : name_(file.path()), file_(std::move(file)), mapped_(MappedFile(file_->descriptor(), name_)) {
  Parse(std::as_bytes(mapped_->bytes()));
}

SafetensorsReader::SafetensorsReader(std::span<const std::byte> bytes, std::string name)
    : name_(std::move(name)) {
  Parse(bytes);
}

void SafetensorsReader::Parse(std::span<const std::byte> bytes) {
  if (bytes.size() < kLengthBytes) {
    FailFile(name_, fmt::format("{} bytes are too few for a safetensors file", bytes.size()));
  }
  uint64_t header_bytes = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    header_bytes |= std::to_integer<uint64_t>(bytes[i]) << (8 * i);
  }
  if (header_bytes > kMaxHeaderBytes) {
    FailFile(name_, fmt::format("claims a header of {} bytes, more than the format's limit of {}",
                                header_bytes, kMaxHeaderBytes));
  }
  if (header_bytes > bytes.size() - kLengthBytes) {
    FailFile(name_, fmt::format("claims a header of {} bytes, but only {} follow", header_bytes,
                                bytes.size() - kLengthBytes));
  }
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + kLengthBytes;
  if (header_bytes == 0 || text[0] != '{') FailFile(name_, "the header is not a JSON object");
  const Json header = ParseJson(std::string_view(text, header_bytes), name_ + ": header");
  data_begin_ = static_cast<int64_t>(kLengthBytes + header_bytes);
  data_ = bytes.subspan(kLengthBytes + header_bytes);
  const auto data_bytes = static_cast<int64_t>(data_.size());

  for (const auto& item : header.items()) {  // sorted by name
    if (item.key() != "__metadata__") {
      tensors_.push_back(ParseEntry(name_, item.key(), item.value(), data_bytes));
      continue;
    }
    if (!item.value().is_object()) FailFile(name_, "__metadata__ is not an object");
    for (const auto& [key, value] : item.value().items()) {
      if (!value.is_string()) {
        FailFile(name_, fmt::format("__metadata__: \"{}\" is not a string", Printable(key)));
      }
      metadata_[key] = value.get<std::string>();
    }
  }
  CheckCoverage(name_, tensors_, data_bytes);
}

const TensorEntry* SafetensorsReader::Find(std::string_view name) const {
  const auto found = std::lower_bound(
      tensors_.begin(), tensors_.end(), name,
      [](const TensorEntry& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return found == tensors_.end() || found->name != name ? nullptr : &*found;
}

const TensorEntry& SafetensorsReader::Require(std::string_view name) const {
  const TensorEntry* tensor = Find(name);
  if (tensor == nullptr) {
    throw UserError(
        fmt::format("{}: no tensor \"{}\" among its {}; is it a checkpoint of another model?",
                    name_, Printable(name), tensors_.size()));
  }
  return *tensor;
}

std::span<const std::byte> SafetensorsReader::Raw(std::string_view name) const {
  const TensorEntry& tensor = Require(name);
  return data_.subspan(static_cast<size_t>(tensor.begin), static_cast<size_t>(tensor.bytes));
}

void SafetensorsReader::Read(const TensorEntry& tensor, int64_t at, std::span<std::byte> to) const {
  if (at < 0 || static_cast<int64_t>(to.size()) > tensor.bytes - at) {
    throw InternalError(
        fmt::format("tensor \"{}\" has no {} bytes from {} on", tensor.name, to.size(), at));
  }
  if (file_) return file_->Read(data_begin_ + tensor.begin + at, to);
  const auto begin = static_cast<size_t>(tensor.begin + at);
  std::ranges::copy(data_.subspan(begin, to.size()), to.begin());
}

void SafetensorsReader::WillRead(const TensorEntry& tensor, int64_t at, int64_t bytes) const {
  if (file_) file_->WillRead(data_begin_ + tensor.begin + at, bytes);
}

void SafetensorsReader::RequireUnchanged() const {
  if (file_) file_->RequireUnchanged();
}

void SafetensorsReader::RequireFloats(const TensorEntry& tensor) const {
  switch (tensor.type) {
    case TensorType::kF64:
    case TensorType::kF32:
    case TensorType::kF16:
    case TensorType::kBf16:
      return;
    default:
      throw UserError(
          fmt::format("{}: tensor \"{}\": {} cannot be read as floating-point numbers; convert it "
                      "to F32 or BF16",
                      name_, Printable(tensor.name), TypeName(tensor.type)));
  }
}

void SafetensorsReader::ReadFloat32(std::string_view name, float* out, int64_t count) const {
  const TensorEntry& tensor = Require(name);
  if (tensor.elements != count) {
    throw UserError(fmt::format(
        "{}: tensor \"{}\": shape {} has {} elements, but the model needs {}; is it a checkpoint "
        "of another model?",
        name_, Printable(name), Printable(ShapeText(tensor.shape)), tensor.elements, count));
  }
  RequireFloats(tensor);
  const std::span<const std::byte> bytes = Raw(name);
  switch (tensor.type) {
    case TensorType::kF32:
      if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
      break;
    case TensorType::kF64:
      ConvertElements<double>(bytes, out, [](double x) { return static_cast<float>(x); });
      break;
    case TensorType::kF16:
      ConvertElements<uint16_t>(bytes, out, FromF16);
      break;
    case TensorType::kBf16:
      ConvertElements<uint16_t>(bytes, out, FromBf16);
      break;
    default:
      break;
  }
  // The caller now has a copy, so the file's pages need not stay in memory.
  if (mapped_) mapped_->Release();
}

}  // namespace plimsoll::formats

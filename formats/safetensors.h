// Safetensors files: eight bytes with the header's length (little-endian), a JSON header that gives
// each tensor's dtype, shape and byte range, then the data, little-endian and row-major.
//
// Everything in a file is checked before it is used. Every mistake is a one-line UserError that
// names the file and, if it concerns a tensor, the tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/mapped_file.h"
#include "base/random_access_file.h"

namespace plimsoll::formats {

// The supported element types, called "BOOL", "U8", "F32", … in files.
enum class TensorType {
  kBool,
  kU8,
  kI8,
  kF8E5M2,
  kF8E4M3,
  kI16,
  kU16,
  kF16,
  kBf16,
  kI32,
  kU32,
  kF32,
  kF64,
  kI64,
  kU64,
};

int64_t TypeBytes(TensorType type);  // size of one element
std::string_view TypeName(TensorType type);
std::optional<TensorType> ParseTypeName(std::string_view name);

// The header's entry for a tensor. `elements` and `bytes` follow from type and shape; a scalar has
// an empty shape.
struct TensorEntry {
  std::string name;
  TensorType type = TensorType::kF32;
  std::vector<int64_t> shape;
  int64_t elements = 0;
  int64_t bytes = 0;
  int64_t begin = 0;  // offset from the first byte after the header
};

// Formats a shape: "[2, 3]".
std::string ShapeText(std::span<const int64_t> shape);

// The number of elements; nullopt if a dimension is negative or the product exceeds 2^63 - 1.
std::optional<int64_t> CountElements(std::span<const int64_t> shape);

// A safetensors file. Raw() maps the data, which the system loads page by page on first access;
// Read() reads large pieces at once.
class SafetensorsReader {
 public:
  // Maps the file and checks the complete header.
  explicit SafetensorsReader(const std::string& path);
  explicit SafetensorsReader(RandomAccessFile file);
  // Reads a file in memory; the bytes must outlive the reader. `name` replaces the file's name.
  SafetensorsReader(std::span<const std::byte> bytes, std::string name);

  const std::string& file() const { return name_; }
  const std::vector<TensorEntry>& tensors() const { return tensors_; }  // sorted by name
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  const TensorEntry* Find(std::string_view name) const;     // null when absent
  const TensorEntry& Require(std::string_view name) const;  // UserError when absent

  // The tensor's bytes. They need not be aligned to the element's size.
  std::span<const std::byte> Raw(std::string_view name) const;

  // Fills `to` with the tensor's bytes that begin at offset `at`. Any thread may call it.
  void Read(const TensorEntry& tensor, int64_t at, std::span<std::byte> to) const;
  // Asks the system to start loading bytes that will be read soon.
  void WillRead(const TensorEntry& tensor, int64_t at, int64_t bytes) const;
  // Throws a UserError if the file was written since it was opened, since its data may mix two
  // versions.
  void RequireUnchanged() const;

  // Throws a UserError unless ReadFloat32 can convert the tensor's type.
  void RequireFloats(const TensorEntry& tensor) const;
  // Writes the tensor's elements, converted from F64, F16 or BF16 where needed, to out[0, count).
  // Throws UserError when the tensor has another type or does not have `count` elements.
  void ReadFloat32(std::string_view name, float* out, int64_t count) const;

 private:
  void Parse(std::span<const std::byte> bytes);

  std::string name_;
  std::optional<RandomAccessFile> file_;  // the open file; empty when reading from memory
  std::optional<MappedFile> mapped_;      // the mapping of the same file
  std::span<const std::byte> data_;       // the data after the header
  int64_t data_begin_ = 0;                // the data's offset in the file
  std::vector<TensorEntry> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace plimsoll::formats

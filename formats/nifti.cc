#include "formats/nifti.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "formats/compression.h"
#include "formats/nifti_header.h"

namespace plimsoll::formats {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr int64_t kMostSide = 32767;  // limit of the int16 field `dim`

// Calls visit.operator()<T>() with the C++ type T of the values.
template <typename Visit>
void Dispatch(NiftiType type, Visit&& visit) {
  switch (type) {
    case NiftiType::kUint8:
      return visit.template operator()<uint8_t>();
    case NiftiType::kInt16:
      return visit.template operator()<int16_t>();
    case NiftiType::kInt32:
      return visit.template operator()<int32_t>();
    case NiftiType::kFloat32:
      return visit.template operator()<float>();
    case NiftiType::kFloat64:
      return visit.template operator()<double>();
    case NiftiType::kInt8:
      return visit.template operator()<int8_t>();
    case NiftiType::kUint16:
      return visit.template operator()<uint16_t>();
    case NiftiType::kUint32:
      return visit.template operator()<uint32_t>();
    case NiftiType::kInt64:
      return visit.template operator()<int64_t>();
    case NiftiType::kUint64:
      return visit.template operator()<uint64_t>();
  }
}

// Appends the values in `bytes`, which contains no partial value.
template <typename T>
void AppendValues(const NiftiHeader& header, Bytes bytes, std::vector<float>& values) {
  const bool scaled = header.slope != 1 || header.offset != 0;
  for (size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    std::array<uint8_t, sizeof(T)> stored;
    std::memcpy(stored.data(), bytes.data() + at, sizeof(T));
    if (header.swapped) std::ranges::reverse(stored);
    const T value = std::bit_cast<T>(stored);
    values.push_back(
        scaled ? static_cast<float>(header.slope * static_cast<double>(value) + header.offset)
               : static_cast<float>(value));
  }
}

[[noreturn]] void FailTruncated(const NiftiHeader& header, const std::string& name,
                                size_t missing) {
  throw UserError(
      fmt::format("{}: truncated: its header announces {} of values, and at least {} {} "
                  "missing; copy the file again",
                  name, Counted(header.bytes(), "byte"), Counted(missing, "byte"),
                  missing == 1 ? "is" : "are"));
}

// Parses the header of a file that begins with `start`. `most`: an upper bound on the size of the
// file's content in bytes.
NiftiHeader HeaderWithin(Bytes start, const std::string& name, int64_t most_values, size_t most) {
  NiftiHeader header = ParseNiftiHeader(start, name, most_values);
  const size_t end = header.begin + header.bytes();
  if (end > most) FailTruncated(header, name, end - most);
  return header;
}

// An upper bound on the size of the file's content after decompression, in bytes.
size_t MostContent(Bytes bytes, const std::string& name) {
  switch (CompressionOf(bytes)) {
    case Compression::kNone:
      return bytes.size();
    case Compression::kGzip:
      return kMostGzipGrowth * bytes.size();
    default:
      throw UserError(name + ": is compressed with another program than gzip; unpack it");
  }
}

// Receives the content of a file in pieces, and checks each piece before it stores it.
class NiftiReader {
 public:
  // `most`: an upper bound on the size of the content in bytes.
  NiftiReader(const std::string& name, int64_t most_values, size_t most)
      : name_(name), most_values_(most_values), most_(most) {}

  void Take(Bytes piece) {
    if (!header_) {
      piece = Fill(start_, kNiftiHeaderBytes, piece);
      if (start_.size() < kNiftiHeaderBytes) return;
      ReadHeader();
    }
    const size_t passed = std::min(to_pass_, piece.size());
    to_pass_ -= passed;
    piece = piece.subspan(passed);
    if (piece.size() > to_read_) {
      throw UserError(
          fmt::format("{}: has more bytes after the {} of the values that its header announces; "
                      "write it again "
                      "with the program that made it",
                      name_, header_->bytes()));
    }
    to_read_ -= piece.size();
    // A value may be split between two pieces.
    const size_t width = BytesOf(header_->type);
    if (!split_.empty()) {
      piece = Fill(split_, width, piece);
      if (split_.size() < width) return;
      AppendAll(split_);
      split_.clear();
    }
    const size_t rest = piece.size() % width;
    AppendAll(piece.first(piece.size() - rest));
    Fill(split_, width, piece.last(rest));
  }

  NiftiVolume Finish() && {
    // Throws an error that says what is wrong.
    if (!header_) ParseNiftiHeader(start_, name_, most_values_);
    if (to_pass_ + to_read_ > 0) FailTruncated(*header_, name_, to_pass_ + to_read_);
    return {header_->grid, std::move(values_)};
  }

 private:
  // Moves bytes from the start of `piece` until `to` has `size`, and returns the rest.
  static Bytes Fill(std::vector<uint8_t>& to, size_t size, Bytes piece) {
    const Bytes head = piece.first(std::min(size - to.size(), piece.size()));
    to.insert(to.end(), head.begin(), head.end());
    return piece.subspan(head.size());
  }

  void ReadHeader() {
    header_ = HeaderWithin(start_, name_, most_values_, most_);
    to_pass_ = header_->begin - kNiftiHeaderBytes;
    to_read_ = header_->bytes();
  }

  // Memory grows with the received values, since a header may announce more than a compressed file
  // has.
  void AppendAll(Bytes bytes) {
    const size_t count = values_.size() + bytes.size() / BytesOf(header_->type);
    if (count > values_.capacity()) {
      const auto all = static_cast<size_t>(header_->grid.values());
      values_.reserve(std::min(all, std::max(count, 2 * values_.capacity())));
    }
    Dispatch(header_->type, [&]<typename T>() { AppendValues<T>(*header_, bytes, values_); });
  }

  const std::string& name_;
  int64_t most_values_;
  size_t most_;
  std::vector<uint8_t> start_;  // bytes of the header
  std::optional<NiftiHeader> header_;
  size_t to_pass_ = 0;  // bytes still to skip before the values
  size_t to_read_ = 0;  // bytes of values still to read
  std::vector<uint8_t> split_;
  std::vector<float> values_;
};

template <typename T>
void WriteValues(const std::string& path, const NiftiGrid& grid, NiftiType type,
                 std::span<const T> values) {
  if (std::cmp_not_equal(grid.values(), values.size())) {
    throw InternalError(path + ": the volume to write has another number of values");
  }
  const bool zipped = path.ends_with(".nii.gz");
  if (!zipped && !path.ends_with(".nii")) {
    throw UserError(path +
                    ": volumes are written as NIfTI-1; end its name with .nii, or with .nii.gz "
                    "to have it compressed");
  }
  if (std::max(std::ranges::max(grid.size), grid.channels) > kMostSide) {
    throw UserError(fmt::format(
        "{}: NIfTI-1 has no volumes of {} × {} × {} voxels with {} channels; crop it to {} on each "
        "side",
        path, grid.size[0], grid.size[1], grid.size[2], grid.channels, kMostSide));
  }
  std::vector<uint8_t> content = NiftiHeaderBytes(grid, type);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(values.data());
  content.insert(content.end(), bytes, bytes + values.size_bytes());
  OutputFile file(path);
  const auto write = [&](Bytes piece) { file.Write(std::as_bytes(piece)); };
  if (zipped) {
    CompressGzip(content, write);
  } else {
    write(content);
  }
  file.Commit();
}

}  // namespace

NiftiVolume ParseNifti(Bytes bytes, const std::string& name, int64_t most_values) {
  NiftiReader reader(name, most_values, MostContent(bytes, name));
  if (CompressionOf(bytes) == Compression::kNone) {
    reader.Take(bytes);
  } else {
    Decompress(bytes, name, [&](Bytes piece) { reader.Take(piece); });
  }
  return std::move(reader).Finish();
}

NiftiGrid ReadNiftiGrid(const std::string& path, int64_t most_values) {
  const MappedFile file(path);
  const Bytes bytes = file.bytes();
  const size_t most = MostContent(bytes, path);
  if (CompressionOf(bytes) == Compression::kNone) {
    const Bytes start = bytes.first(std::min(bytes.size(), kNiftiHeaderBytes));
    return HeaderWithin(start, path, most_values, most).grid;
  }
  const std::vector<uint8_t> start = DecompressStart(bytes, path, kNiftiHeaderBytes);
  return HeaderWithin(start, path, most_values, most).grid;
}

NiftiVolume ReadNifti(const std::string& path, int64_t most_values) {
  return ParseNifti(MappedFile(path).bytes(), path, most_values);
}

void WriteNifti(const std::string& path, const NiftiGrid& grid, std::span<const uint8_t> values) {
  WriteValues(path, grid, NiftiType::kUint8, values);
}

void WriteNifti(const std::string& path, const NiftiGrid& grid, std::span<const int16_t> values) {
  WriteValues(path, grid, NiftiType::kInt16, values);
}

void WriteNifti(const std::string& path, const NiftiGrid& grid, std::span<const float> values) {
  WriteValues(path, grid, NiftiType::kFloat32, values);
}

}  // namespace plimsoll::formats

#include "data/images/idx_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/amounts.h"
#include "base/error.h"
#include "formats/compression.h"

namespace plimsoll::data {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr uint8_t kUnsignedByte = 0x08;

uint32_t BigEndian(const uint8_t* bytes) {
  return uint32_t{bytes[0]} << 24 | uint32_t{bytes[1]} << 16 | uint32_t{bytes[2]} << 8 | bytes[3];
}

std::string DimensionsText(int dimensions) { return Counted(dimensions, "dimension"); }

// Receives the content of a file in pieces, and checks each piece before it stores it.
class IdxReader {
 public:
  // `most`: an upper bound on the size of the content in bytes.
  IdxReader(const std::string& name, int dimensions, size_t most)
      : name_(name), dimensions_(dimensions), most_(most) {
    header_.reserve(header_size());
  }

  void Take(Bytes piece) {
    const size_t missing = header_size() - header_.size();
    if (missing > 0) {
      const Bytes head = piece.first(std::min(missing, piece.size()));
      header_.insert(header_.end(), head.begin(), head.end());
      piece = piece.subspan(head.size());
      if (header_.size() < header_size()) return;
      ReadHeader();
    }
    if (piece.size() > announced_ - read_.values.size()) {
      Fail(fmt::format("has more than the {} its header announces; copy the file again", Shape()));
    }
    read_.values.insert(read_.values.end(), piece.begin(), piece.end());
  }

  IdxBytes Finish() && {
    if (header_.size() < header_size()) {
      // The few bytes that exist may show that this is not an IDX file at all.
      CheckMagic();
      Fail(
          fmt::format("truncated: it has {} bytes, and the header of an IDX file with {} has {}; "
                      "copy the file again",
                      header_.size(), DimensionsText(dimensions_), header_size()));
    }
    if (read_.values.size() < announced_) FailTruncated(read_.values.size());
    return std::move(read_);
  }

 private:
  size_t header_size() const { return 4 * (1 + static_cast<size_t>(dimensions_)); }
  std::string Shape() const { return fmt::format("{} bytes", fmt::join(read_.shape, " × ")); }

  [[noreturn]] void Fail(const std::string& what) const { throw UserError(name_ + ": " + what); }

  [[noreturn]] void FailTruncated(size_t there) const {
    Fail(
        fmt::format("truncated: its header announces {}, and there are {} at most; copy the file "
                    "again",
                    Shape(), there));
  }

  void CheckMagic() const {
    const std::vector<uint8_t> start = {0, 0, kUnsignedByte};
    const size_t known = std::min(start.size(), header_.size());
    if (!std::equal(header_.begin(), header_.begin() + static_cast<std::ptrdiff_t>(known),
                    start.begin())) {
      Fail(fmt::format(
          "is no IDX file of bytes: it begins with {:02x}, where 00 00 08 {:02x} is "
          "expected; name a folder with the data set's own files",
          fmt::join(Bytes(header_).first(std::min<size_t>(4, header_.size())), " "), dimensions_));
    }
    if (header_.size() > known && header_[known] != dimensions_) {
      Fail(
          fmt::format("has {}, where {} is expected (images have 3, labels 1); does it have the "
                      "name of another file of the data set?",
                      DimensionsText(header_[known]), dimensions_));
    }
  }

  // Reserves memory for the values, if the file can hold as many as its header announces.
  void ReadHeader() {
    CheckMagic();
    unsigned __int128 announced = 1;  // product of the dimensions, at most 2^96
    for (int d = 0; d < dimensions_; ++d) {
      const uint32_t length = BigEndian(header_.data() + 4 * (1 + d));
      read_.shape.push_back(length);
      announced *= length;
    }
    if (announced == 0) Fail(fmt::format("is empty: its header announces {}", Shape()));
    const size_t left = most_ - header_.size();
    if (announced > left) FailTruncated(left);
    announced_ = static_cast<size_t>(announced);
    read_.values.reserve(announced_);
  }

  const std::string& name_;
  int dimensions_;
  size_t most_;
  std::vector<uint8_t> header_;
  size_t announced_ = 0;  // size of the values in bytes
  IdxBytes read_;
};

}  // namespace

IdxBytes ParseIdx(Bytes bytes, const std::string& name, int dimensions) {
  if (dimensions < 1 || dimensions > 3) {
    throw InternalError(fmt::format("{}: IDX files of {} dimensions", name, dimensions));
  }
  switch (formats::CompressionOf(bytes)) {
    case formats::Compression::kNone: {
      IdxReader reader(name, dimensions, bytes.size());
      reader.Take(bytes);
      return std::move(reader).Finish();
    }
    case formats::Compression::kGzip: {
      IdxReader reader(name, dimensions, formats::kMostGzipGrowth * bytes.size());
      formats::Decompress(bytes, name, [&](Bytes piece) { reader.Take(piece); });
      return std::move(reader).Finish();
    }
    default:
      throw UserError(name + ": is compressed with another program than gzip; unpack it");
  }
}

}  // namespace plimsoll::data

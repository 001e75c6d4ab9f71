#include "data/texts/text_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "base/error.h"
#include "base/scratch_file.h"
#include "data/tokenizers/unicode.h"
#include "formats/compression.h"

namespace plimsoll::data {
namespace {

// A kind of file that is not text: its first bytes, its name, and what to do.
struct Kind {
  std::string_view magic;
  size_t offset;
  const char* name;
  const char* way_out;
};
using namespace std::string_view_literals;
constexpr const char* kUnpack = "unpack it, and name the text files in it";
constexpr const char* kPicture = "name text files";
constexpr const char* kDocument = "take the text out of it (pdftotext), and name that";
constexpr const char* kTable = "write its text to a file, and name that";
constexpr const char* kUtf8 = "convert it (iconv -f UTF-16 -t UTF-8)";
constexpr std::array kKinds = std::to_array<Kind>({
    {"\xff\xfe\0\0"sv, 0, "text in UTF-32", "convert it (iconv -f UTF-32 -t UTF-8)"},
    {"\0\0\xfe\xff"sv, 0, "text in UTF-32", "convert it (iconv -f UTF-32 -t UTF-8)"},
    {"\xff\xfe"sv, 0, "text in UTF-16", kUtf8},
    {"\xfe\xff"sv, 0, "text in UTF-16", kUtf8},
    {"%PDF-"sv, 0, "a PDF document", kDocument},
    {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv, 0, "a document of Office", kTable},
    {"PK\x03\x04"sv, 0, "a zip archive (docx, xlsx, epub, pt and jar are such, too)", kUnpack},
    {"ustar"sv, 257, "a tar archive", kUnpack},
    {"7z\xbc\xaf\x27\x1c"sv, 0, "a 7z archive", kUnpack},
    {"Rar!\x1a\x07"sv, 0, "a RAR archive", kUnpack},
    {"BZh"sv, 0, "compressed with bzip2", "unpack it (bzip2 -d), or use gzip, xz or zstd"},
    {"\x04\x22\x4d\x18"sv, 0, "compressed with lz4", "unpack it (lz4 -d), or use gzip, xz or zstd"},
    {"\x1f\x9d"sv, 0, "compressed with compress", "unpack it (gzip -d), or use gzip, xz or zstd"},
    {"\x5d\0\0"sv, 0, "compressed with lzma", "unpack it (xz -d), or use gzip, xz or zstd"},
    {"\x1f\x8b"sv, 0, "compressed twice", kUnpack},
    {"\xfd\x37zXZ\0"sv, 0, "compressed twice", kUnpack},
    {"\x28\xb5\x2f\xfd"sv, 0, "compressed twice", kUnpack},
    {"\x89PNG\r\n"sv, 0, "a PNG picture", kPicture},
    {"\xff\xd8\xff"sv, 0, "a JPEG picture", kPicture},
    {"GIF8"sv, 0, "a GIF picture", kPicture},
    {"RIFF"sv, 0, "sound, film or a picture (RIFF)", kPicture},
    {"OggS"sv, 0, "sound (Ogg)", kPicture},
    {"fLaC"sv, 0, "sound (FLAC)", kPicture},
    {"ID3"sv, 0, "sound (MP3)", kPicture},
    {"ftyp"sv, 4, "sound or film (MP4)", kPicture},
    {"PAR1"sv, 0, "a Parquet table", kTable},
    {"ARROW1"sv, 0, "an Arrow table", kTable},
    {"SQLite format 3"sv, 0, "an SQLite database", kTable},
    {"\x89HDF\r\n"sv, 0, "an HDF5 file", kTable},
    {"\x93NUMPY"sv, 0, "a NumPy array", "write its tokens as a file of 16 or 32 bits each"},
    {"\x88\xd8\x34\x01"sv, 0, "a token file (llm.c)", "leave data.tokenizer out"},
    {"\xa1\xd9\x34\x01"sv, 0, "a token file (llm.c)", "leave data.tokenizer out"},
    {"GGUF"sv, 0, "a model's weights (GGUF)", kPicture},
    {"\x7f"
     "ELF"sv,
     0, "a program", kPicture},
});

const Kind* FindKind(std::string_view bytes) {
  const auto found = std::ranges::find_if(kKinds, [&](const Kind& kind) {
    return bytes.size() >= kind.offset && bytes.substr(kind.offset).starts_with(kind.magic);
  });
  return found == kKinds.end() ? nullptr : &*found;
}

// Counts of bytes in the sampled parts of a file.
struct Sample {
  int64_t bytes = 0;
  // Bytes that text never has: control characters except white space, \a, \b and ESC; DEL.
  int64_t controls = 0;
  int64_t foreign = 0;  // bytes that are not well-formed UTF-8

  void Add(std::string_view part) {
    bytes += static_cast<int64_t>(part.size());
    for (size_t i = 0; i < part.size();) {
      const auto byte = static_cast<uint8_t>(part[i]);
      const bool blank = byte >= '\a' && byte <= '\r';
      if (byte == 0x7f || (byte < ' ' && !blank && byte != 0x1b)) ++controls;
      bool cut_off = false;
      const size_t length = Utf8Length(part.substr(i), &cut_off);
      if (length == 0 && !cut_off) ++foreign;
      i += std::max<size_t>(length, 1);
    }
  }
};

Sample Look(std::string_view bytes) {
  constexpr size_t kParts = 64, kPart = size_t{4} << 10;
  Sample sample;
  if (bytes.size() <= kParts * kPart) {
    sample.Add(bytes);
    return sample;
  }
  for (size_t i = 0; i < kParts; ++i) {
    size_t begin = i * ((bytes.size() - kPart) / (kParts - 1));
    // A sampled part may begin in the middle of a UTF-8 sequence.
    const size_t end = begin + kPart;
    while (begin < end && (static_cast<uint8_t>(bytes[begin]) & 0xc0) == 0x80) ++begin;
    sample.Add(bytes.substr(begin, end - begin));
  }
  return sample;
}

}  // namespace

void RequireText(std::string_view bytes, const std::string& name) {
  // Compressed data has one control character in nine bytes. Western 8-bit text has a few percent
  // of bytes that are not UTF-8, which are left to the tokenizer; in 8-bit text of other alphabets
  // most bytes are not UTF-8.
  constexpr double kMaxControls = 0.01, kMaxForeign = 0.3;
  if (bytes.empty()) return;
  const Sample sample = Look(bytes);
  const auto share = [&](int64_t count) {
    return static_cast<double>(count) / static_cast<double>(sample.bytes);
  };
  const Kind* kind = FindKind(bytes);
  const bool binary = share(sample.controls) > kMaxControls;
  const bool foreign = share(sample.foreign) > kMaxForeign;
  if (kind != nullptr && (binary || foreign || bytes.starts_with("%PDF-"))) {
    throw UserError(
        fmt::format("{}: is {}, which is not read; {}", name, kind->name, kind->way_out));
  }
  if (binary) {
    throw UserError(fmt::format(
        "{}: holds no text: {:.1f} % of its bytes are zeros and control characters; name text "
        "files, or see docs/text.md if these are tokens or other bytes",
        name, 100 * share(sample.controls)));
  }
  if (foreign) {
    throw UserError(fmt::format(
        "{}: {:.0f} % of its bytes are no UTF-8; if it is text in another encoding, convert it "
        "(iconv -f ENCODING -t UTF-8)",
        name, 100 * share(sample.foreign)));
  }
}

std::string StartOfText(const std::string& path) {
  constexpr size_t kStart = size_t{64} << 10;
  const MappedFile file(path);
  if (formats::CompressionOf(file.bytes()) == formats::Compression::kNone) {
    RequireText(file.text(), path);
    return std::string(file.text().substr(0, kStart));
  }
  const std::vector<uint8_t> start = formats::DecompressStart(file.bytes(), path, kStart);
  std::string text(start.begin(), start.end());
  RequireText(text, path);
  return text;
}

MappedFile OpenText(const std::string& path, const Say& say) {
  MappedFile file(path);
  if (formats::CompressionOf(file.bytes()) == formats::Compression::kNone) {
    RequireText(file.text(), path);
    file.Release();
    return file;
  }
  if (say) {
    say(fmt::format("unpacking {} ({})\n", path,
                    FormatBytes(static_cast<int64_t>(file.bytes().size()))));
  }
  // Compression often reduces text to a third or a quarter of its size.
  constexpr int64_t kUnpacked = 5, kReleaseEvery = int64_t{16} << 20;
  ScratchFile scratch({path + ": cannot be unpacked", "unpack it yourself"},
                      kUnpacked * std::ssize(file.bytes()));
  int64_t released = 0;
  formats::Decompress(file.bytes(), path, [&](std::span<const uint8_t> bytes) {
    scratch.Write(std::as_bytes(bytes));
    if (scratch.bytes() - released < kReleaseEvery) return;
    released = scratch.bytes();
    file.Release();
  });
  MappedFile text(scratch.descriptor(), path);
  RequireText(text.text(), path);
  text.Release();
  return text;
}

}  // namespace plimsoll::data

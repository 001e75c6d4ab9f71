#include "data/tokens/token_file.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/compression.h"

static_assert(std::endian::native == std::endian::little, "token files are read in place");

namespace plimsoll::data {
namespace {

// The position of the ids in a file, and their width.
struct Layout {
  bool header = false;
  int width = 2;
  int64_t offset = 0;  // bytes
  int64_t tokens = 0;
};

std::optional<Layout> ReadHeader(const MappedFile& file, const TokenFileOptions& options) {
  const auto bytes = file.bytes();
  const std::string& path = file.path();
  int32_t magic = 0;
  if (bytes.size() < sizeof magic) return std::nullopt;
  std::memcpy(&magic, bytes.data(), sizeof magic);
  if (magic != kUint16Magic && magic != kUint32Magic) return std::nullopt;

  constexpr int64_t kHeaderBytes = kHeaderInts * static_cast<int64_t>(sizeof(int32_t));
  const auto size = static_cast<int64_t>(bytes.size());
  if (size < kHeaderBytes) {
    throw UserError(
        fmt::format("{}: truncated: {} bytes, less than the {} of an llm.c header; "
                    "copy or tokenise it again",
                    path, size, kHeaderBytes));
  }
  int32_t version = 0, count = 0;
  std::memcpy(&version, bytes.data() + 4, sizeof version);
  std::memcpy(&count, bytes.data() + 8, sizeof count);
  const int32_t expected_version = magic == kUint16Magic ? kUint16Version : kUint32Version;
  if (version != expected_version) {
    throw UserError(fmt::format(
        "{}: llm.c header with magic {} has version {}, only {} is known; tokenise it again", path,
        magic, version, expected_version));
  }
  Layout layout;
  layout.header = true;
  layout.width = magic == kUint16Magic ? 2 : 4;
  layout.offset = kHeaderBytes;
  layout.tokens = count;
  const int64_t expected = kHeaderBytes + static_cast<int64_t>(count) * layout.width;
  if (count < 0 || size != expected) {
    throw UserError(fmt::format(
        "{}: its header promises {} tokens of {} bytes ({} bytes with the header) but the file has "
        "{} bytes; copy or tokenise it again",
        path, count, layout.width, count < 0 ? 0 : expected, size));
  }
  const int asked = options.format == TokenFormat::kUint16   ? 2
                    : options.format == TokenFormat::kUint32 ? 4
                                                             : 0;
  if (asked != 0 && asked != layout.width) {
    throw UserError(fmt::format("{}: its header says uint{} but data.format is uint{}; use auto",
                                path, 8 * layout.width, 8 * asked));
  }
  return layout;
}

Layout DetectLayout(const MappedFile& file, const TokenFileOptions& options) {
  const std::string& path = file.path();
  const auto size = static_cast<int64_t>(file.bytes().size());
  if (size == 0) {
    throw UserError(path + ": is empty; make token files with `plimsoll data tokenize`");
  }
  Layout layout;
  if (const auto header = ReadHeader(file, options)) {
    layout = *header;
  } else {
    const bool wide = options.format == TokenFormat::kUint32 ||
                      (options.format == TokenFormat::kAuto && options.vocab > int64_t{1} << 16);
    layout.width = wide ? 4 : 2;
    layout.tokens = size / layout.width;
    if (size % layout.width != 0) {
      throw UserError(fmt::format(
          "{}: {} bytes are no whole number of uint{} tokens: truncated, or of another form (see "
          "data.format: auto, uint16, uint32)",
          path, size, 8 * layout.width));
    }
  }
  if (layout.tokens == 0) {
    throw UserError(path + ": holds no tokens; make token files with `plimsoll data tokenize`");
  }
  return layout;
}

// T is uint16_t or uint32_t. The ids' offset is a multiple of their width, so they are aligned.
template <typename T>
class MappedTokens : public TokenFile {
 public:
  MappedTokens(MappedFile file, const Layout& layout, const TokenFileOptions& options)
      : file_(std::move(file)),
        layout_(layout),
        ids_(reinterpret_cast<const T*>(file_.bytes().data() + layout.offset)),
        limit_(options.vocab > 0 ? static_cast<uint64_t>(options.vocab)
                                 : uint64_t{std::numeric_limits<int32_t>::max()}) {
    OpenMask();
    if (static_cast<int64_t>(file_.bytes().size()) <= options.scan_limit_bytes) {
      Check(0, size());
      file_.Release();
    }
  }

  const std::string& name() const override { return file_.path(); }
  int64_t size() const override { return layout_.tokens; }
  bool has_header() const override { return layout_.header; }
  int width() const override { return layout_.width; }
  uint32_t MaxId() const override { return Max(0, size()); }

  void Read(int64_t offset, int64_t count, int32_t* out) const override {
    CheckRange(*this, offset, count);
    Check(offset, count);
    const T* ids = ids_ + offset;
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<int32_t>(ids[i]);
  }

  bool has_mask() const override { return mask_.has_value(); }

  void MaskTargets(int64_t offset, int64_t count, int32_t* out) const override {
    if (!mask_) return;
    CheckRange(*this, offset, count);
    const uint8_t* mask = mask_->bytes().data() + offset;
    for (int64_t i = 0; i < count; ++i) out[i] = mask[i] != 0 ? out[i] : kIgnoredTarget;
  }

  int64_t CountTargets(int64_t offset, int64_t count) const override {
    if (!mask_) return count;
    CheckRange(*this, offset, count);
    const uint8_t* mask = mask_->bytes().data() + offset;
    return count - std::count(mask, mask + count, uint8_t{0});
  }

 private:
  void OpenMask() {
    const std::string path = file_.path() + ".mask";
    struct stat info = {};
    if (stat(path.c_str(), &info) != 0) return;
    mask_.emplace(path);
    const auto bytes = mask_->bytes();
    if (static_cast<int64_t>(bytes.size()) != size()) {
      throw UserError(fmt::format(
          "{}: {} bytes for the {} tokens of {}; a mask has one byte (0 or 1) for every token",
          path, bytes.size(), size(), file_.path()));
    }
    const auto bad =
        std::find_if(bytes.begin(), bytes.end(), [](uint8_t value) { return value > 1; });
    if (bad != bytes.end()) {
      throw UserError(
          fmt::format("{}: byte {} is {}; a mask holds 0 (ignored) and 1 (carries loss)", path,
                      bad - bytes.begin(), *bad));
    }
  }

  // A plain maximum, which compilers vectorise: this runs over whole files at start-up.
  uint32_t Max(int64_t offset, int64_t count) const {
    const T* ids = ids_ + offset;
    T max = 0;
    for (int64_t i = 0; i < count; ++i) max = std::max(max, ids[i]);
    return max;
  }

  void Check(int64_t offset, int64_t count) const {
    if (Max(offset, count) < limit_) return;
    const T* begin = ids_ + offset;
    const T* bad = std::find_if(begin, begin + count, [&](T id) { return id >= limit_; });
    throw UserError(fmt::format(
        "{}: token {} is id {}, beyond the vocabulary of {}; raise model.vocab, tokenise with the "
        "model's own tokenizer, or set data.format (the file was read as uint{})",
        file_.path(), bad - ids_, *bad, limit_, 8 * sizeof(T)));
  }

  MappedFile file_;
  Layout layout_;
  const T* ids_;
  uint64_t limit_;
  std::optional<MappedFile> mask_;
};

}  // namespace

TokenFormat ParseTokenFormat(std::string_view text) {
  if (text == "auto") return TokenFormat::kAuto;
  if (text == "uint16") return TokenFormat::kUint16;
  if (text == "uint32") return TokenFormat::kUint32;
  throw UserError(fmt::format("data.format: '{}' is none of auto, uint16, uint32", text));
}

std::shared_ptr<const TokenFile> OpenTokenFile(const std::string& path,
                                               const TokenFileOptions& options) {
  MappedFile file(path);
  // A token file can begin with a compression format's magic bytes, so the name must match as well.
  if (const auto compression = formats::CompressionByName(path);
      compression != formats::Compression::kNone &&
      compression == formats::CompressionOf(file.bytes())) {
    throw UserError(path +
                    ": is compressed, but token files are mapped as they are; unpack it, or set "
                    "data.tokenizer if it holds text");
  }
  const Layout layout = DetectLayout(file, options);
  if (layout.width == 2) {
    return std::make_shared<MappedTokens<uint16_t>>(std::move(file), layout, options);
  }
  return std::make_shared<MappedTokens<uint32_t>>(std::move(file), layout, options);
}

}  // namespace plimsoll::data

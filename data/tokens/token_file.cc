#include "data/tokens/token_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/output_file.h"
#include "formats/compression.h"

namespace plimsoll::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are read in place");

// The position and width of the ids in a file.
struct Layout {
  bool header = false;
  int width = 2;
  int64_t offset = 0;  // in bytes
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
    const std::string path = file_.path() + std::string(kMaskSuffix);
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

  // A simple loop that compilers vectorise, since it runs over complete files at start-up.
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

bool IsNextToTokens(std::string_view path) {
  return path.ends_with(kMaskSuffix) || path.ends_with(kBeginSuffix);
}

std::vector<int32_t> ReadBegins(const std::string& token_file) {
  const std::string path = token_file + std::string(kBeginSuffix);
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) return {};
  const MappedFile file(path);
  std::vector<int32_t> begins;
  std::string_view rest = file.text();
  while (true) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" \n"), rest.size()));
    int32_t id = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), id);
    if (rest.empty() || error != std::errc() || id < 0) break;
    begins.push_back(id);
    rest.remove_prefix(static_cast<size_t>(end - rest.data()));
  }
  if (begins.empty() || !rest.empty()) {
    throw UserError(fmt::format(
        "{}: does not hold ids of tokens, as in \"2\"; tokenise the text again, or remove the file "
        "if documents begin with no such token",
        path));
  }
  return begins;
}

std::string BeginsText(const std::vector<int32_t>& begins) {
  return fmt::format("{}\n", fmt::join(begins, " "));
}

std::shared_ptr<const TokenFile> OpenTokenFile(const std::string& path,
                                               const TokenFileOptions& options) {
  MappedFile file(path);
  // A token file can begin with a compression format's magic bytes by chance, so the file's
  // extension must match as well.
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

TokenFileWriter::TokenFileWriter(std::string path, const TokenFileForm& form)
    : path_(std::move(path)),
      target_(FollowLinks(path_)),
      temporary_(fmt::format("{}.{}.part", target_, getpid())),
      form_(form) {
  struct stat there = {};
  if (stat(target_.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    throw UserError(path_ + ": is not a regular file; name another folder");
  }
  file_ = std::fopen(temporary_.c_str(), "wbxe");
  if (file_ == nullptr) Fail("cannot be created");
  if (form_.header) {
    const std::array<int32_t, kHeaderInts> zeros = {};
    Write(zeros.data(), sizeof zeros);
  }
}

TokenFileWriter::TokenFileWriter(TokenFileWriter&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, std::string())),
      form_(other.form_),
      file_(std::exchange(other.file_, nullptr)),
      tokens_(other.tokens_) {}

TokenFileWriter::~TokenFileWriter() {
  if (file_ != nullptr) std::fclose(file_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void TokenFileWriter::Fail(const char* what) const {
  throw UserError(fmt::format("{}: {}: {}; check the folder and its free space", path_, what,
                              std::strerror(errno)));
}

void TokenFileWriter::Write(const void* data, size_t bytes) {
  if (std::fwrite(data, 1, bytes, file_) != bytes) Fail("cannot be written");
}

void TokenFileWriter::Append(std::span<const int32_t> ids) {
  const int32_t limit =
      form_.width == 2 ? std::numeric_limits<uint16_t>::max() : std::numeric_limits<int32_t>::max();
  std::array<uint16_t, 4096> narrow;
  while (!ids.empty()) {
    const size_t count = std::min(ids.size(), narrow.size());
    for (size_t i = 0; i < count; ++i) {
      if (ids[i] < 0 || ids[i] > limit) {
        throw InternalError(
            fmt::format("{}: id {} does not fit {} bytes", path_, ids[i], form_.width));
      }
      narrow[i] = static_cast<uint16_t>(ids[i]);
    }
    if (form_.width == 2) {
      Write(narrow.data(), count * sizeof(uint16_t));
    } else {
      Write(ids.data(), count * sizeof(int32_t));
    }
    tokens_ += static_cast<int64_t>(count);
    ids = ids.subspan(count);
  }
}

void TokenFileWriter::Finish() {
  if (form_.header) {
    if (tokens_ > std::numeric_limits<int32_t>::max()) {
      throw UserError(
          fmt::format("{}: {} tokens are more than an llm.c header can count; write smaller shards",
                      path_, tokens_));
    }
    const bool narrow = form_.width == 2;
    const std::array<int32_t, 3> header = {narrow ? kUint16Magic : kUint32Magic,
                                           narrow ? kUint16Version : kUint32Version,
                                           static_cast<int32_t>(tokens_)};
    if (std::fseek(file_, 0, SEEK_SET) != 0) Fail("cannot be written");
    Write(header.data(), sizeof header);
  }
  if (std::fflush(file_) != 0 || fsync(fileno(file_)) != 0) Fail("cannot be written");
  if (std::fclose(std::exchange(file_, nullptr)) != 0) Fail("cannot be closed");
}

void TokenFileWriter::Commit() {
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) Fail("cannot be renamed into place");
  temporary_.clear();
  // Syncs the folder's entry to the disk as well, so that the rename survives a power failure.
  SyncNames(std::filesystem::path(target_).parent_path().string());
}

}  // namespace plimsoll::data

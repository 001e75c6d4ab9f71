#include "data/tokens/scratch_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/crc32c.h"
#include "base/error.h"

namespace plimsoll::data {
namespace {

constexpr size_t kTokenBytesAtOnce = size_t{256} << 10;  // bytes
constexpr int64_t kChunk = 4096;                         // tokens read at a time

int WidthOf(const ScratchTokensForm& form) {
  if (form.masked) return 4;
  return form.vocab <= int64_t{1} << 8 ? 1 : form.vocab <= int64_t{1} << 16 ? 2 : 4;
}

// The estimate of the size before tokens are measured: one token for each byte of text.
int64_t MostBytes(const ScratchTokensForm& form) { return form.text_bytes * WidthOf(form); }

// T is the stored type of tokens. In a masked file, a token without loss is stored as its
// complement, a negative number.
template <typename T>
class ScratchTokens final : public TokenSource {
 public:
  ScratchTokens(std::string name, ScratchFile file, bool masked)
      : name_(std::move(name)), file_(std::move(file)), masked_(masked) {}

  const std::string& name() const override { return name_; }
  int64_t size() const override { return file_.bytes() / static_cast<int64_t>(sizeof(T)); }
  void Read(int64_t offset, int64_t count, int32_t* out) const override {
    ForEachChunk(offset, count, [&](std::span<const T> stored) {
      for (const T token : stored) *out++ = IdOf(token);
    });
  }
  bool has_mask() const override { return masked_; }
  void MaskTargets(int64_t offset, int64_t count, int32_t* out) const override {
    if (!masked_) return;
    ForEachChunk(offset, count, [&](std::span<const T> stored) {
      for (const T token : stored) {
        if (!CarriesLoss(token)) *out = kIgnoredTarget;
        ++out;
      }
    });
  }
  int64_t CountTargets(int64_t offset, int64_t count) const override {
    if (!masked_) return count;
    int64_t total = 0;
    ForEachChunk(offset, count, [&](std::span<const T> stored) {
      total += std::ranges::count_if(stored, &CarriesLoss);
    });
    return total;
  }
  const ScratchFile* scratch() const override { return &file_; }

 private:
  static bool CarriesLoss(T token) { return static_cast<int64_t>(token) >= 0; }
  static int32_t IdOf(T token) {
    const auto id = static_cast<int32_t>(token);
    return id < 0 ? ~id : id;
  }

  template <typename Visit>
  void ForEachChunk(int64_t offset, int64_t count, Visit visit) const {
    CheckRange(*this, offset, count);
    std::array<T, kChunk> chunk;
    for (int64_t done = 0; done < count; done += kChunk) {
      const auto stored =
          std::span(chunk).first(static_cast<size_t>(std::min(count - done, kChunk)));
      file_.Read((offset + done) * static_cast<int64_t>(sizeof(T)), std::as_writable_bytes(stored));
      visit(std::span<const T>(stored));
    }
  }

  std::string name_;
  ScratchFile file_;
  bool masked_;
};

}  // namespace

ScratchTokenWriter::ScratchTokenWriter(const ScratchTokensForm& form)
    : form_(form),
      width_(WidthOf(form)),
      file_({form.name + ": its tokens cannot be written",
             "make token files of the text (plimsoll data tokenize) and name those"},
            MostBytes(form)) {
  buffer_.reserve(kTokenBytesAtOnce);
}

void ScratchTokenWriter::Append(std::span<const int32_t> ids, int64_t text_bytes,
                                bool carries_loss) {
  for (const int32_t id : ids) {
    if (id < 0 || id >= form_.vocab) {
      throw InternalError(
          fmt::format("{}: id {} of a vocabulary of {}", form_.name, id, form_.vocab));
    }
    if (buffer_.size() + static_cast<size_t>(width_) > kTokenBytesAtOnce) Flush();
    // Copies the low bytes, which come first (token_file.cc checks the byte order).
    const int32_t stored = carries_loss ? id : ~id;
    const auto* const bytes = reinterpret_cast<const std::byte*>(&stored);
    buffer_.insert(buffer_.end(), bytes, bytes + width_);
  }
  tokens_ += std::ssize(ids);
  text_bytes_ += text_bytes;
}

void ScratchTokenWriter::Flush() {
  if (text_bytes_ > 0) {
    const double share = static_cast<double>(text_bytes_) /
                         static_cast<double>(std::max(form_.text_bytes, text_bytes_));
    file_.Expect(static_cast<int64_t>(static_cast<double>(tokens_ * width_) / share));
  }
  file_.Write(buffer_);
  checksum_ = Crc32c(buffer_, checksum_);
  buffer_.clear();
}

std::string ScratchTokenWriter::checksum() const { return fmt::format("{:08x}", checksum_); }

std::shared_ptr<const TokenSource> ScratchTokenWriter::Finish() {
  Flush();
  buffer_ = {};
  if (width_ == 1) {
    return std::make_shared<ScratchTokens<uint8_t>>(form_.name, std::move(file_), false);
  }
  if (width_ == 2) {
    return std::make_shared<ScratchTokens<uint16_t>>(form_.name, std::move(file_), false);
  }
  return std::make_shared<ScratchTokens<int32_t>>(form_.name, std::move(file_), form_.masked);
}

std::string ScratchText(const SourceList& sources) {
  int64_t tokens = 0, bytes = 0;
  std::string folder;
  for (const auto& source : sources) {
    const ScratchFile* const file = source->scratch();
    if (file == nullptr) continue;
    tokens += source->size();
    bytes += file->bytes();
    folder = file->folder();
  }
  if (bytes == 0) return "";
  return fmt::format("  text became {} tokens, {} on disk in {}, which the end of the run frees\n",
                     FormatCount(static_cast<double>(tokens)), FormatBytes(bytes), folder);
}

}  // namespace plimsoll::data

#include "trainer/data/token_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/random.h"

namespace plimsoll::data {
namespace {

class ByteSource : public TokenSource {
 public:
  ByteSource(std::string name, std::string bytes)
      : name_(std::move(name)), bytes_(std::move(bytes)) {}

  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(bytes_.size()); }
  void Read(int64_t offset, int64_t count, int32_t* out) const override {
    CheckRange(*this, offset, count);
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<uint8_t>(bytes_[offset + i]);
  }

 private:
  std::string name_;
  std::string bytes_;
};

class MemorySource : public TokenSource {
 public:
  MemorySource(std::string name, std::vector<int32_t> ids, std::vector<bool> carries_loss)
      : name_(std::move(name)), ids_(std::move(ids)), carries_loss_(std::move(carries_loss)) {
    if (has_mask() && carries_loss_.size() != ids_.size()) {
      throw InternalError(name_ + ": a mask of another length than its tokens");
    }
  }

  const std::string& name() const override { return name_; }
  int64_t size() const override { return static_cast<int64_t>(ids_.size()); }
  void Read(int64_t offset, int64_t count, int32_t* out) const override {
    CheckRange(*this, offset, count);
    std::copy_n(ids_.begin() + offset, count, out);
  }
  bool has_mask() const override { return !carries_loss_.empty(); }
  void MaskTargets(int64_t offset, int64_t count, int32_t* out) const override {
    CheckRange(*this, offset, count);
    if (!has_mask()) return;
    for (int64_t i = 0; i < count; ++i) {
      if (!carries_loss_[offset + i]) out[i] = kIgnoredTarget;
    }
  }
  int64_t CountTargets(int64_t offset, int64_t count) const override {
    CheckRange(*this, offset, count);
    if (!has_mask()) return count;
    const auto first = carries_loss_.begin() + offset;
    return std::count(first, first + count, true);
  }

 private:
  std::string name_;
  std::vector<int32_t> ids_;
  std::vector<bool> carries_loss_;
};

class SyntheticSource : public TokenSource {
 public:
  SyntheticSource(uint64_t seed, int64_t vocab, int64_t size)
      : name_("data.synthetic"), seed_(seed), vocab_(vocab), size_(size) {}

  const std::string& name() const override { return name_; }
  int64_t size() const override { return size_; }
  void Read(int64_t offset, int64_t count, int32_t* out) const override {
    CheckRange(*this, offset, count);
    for (int64_t i = 0; i < count; ++i) {
      out[i] = static_cast<int32_t>(
          Below(Hash(seed_, static_cast<uint64_t>(offset + i)), static_cast<uint64_t>(vocab_)));
    }
  }

 private:
  std::string name_;
  uint64_t seed_;
  int64_t vocab_;
  int64_t size_;
};

}  // namespace

std::shared_ptr<const TokenSource> MakeByteSource(std::string name, std::string bytes) {
  return std::make_shared<ByteSource>(std::move(name), std::move(bytes));
}

std::shared_ptr<const TokenSource> MakeMemorySource(std::string name, std::vector<int32_t> ids,
                                                    std::vector<bool> carries_loss) {
  return std::make_shared<MemorySource>(std::move(name), std::move(ids), std::move(carries_loss));
}

std::shared_ptr<const TokenSource> MakeSyntheticSource(uint64_t seed, int64_t vocab, int64_t size) {
  if (vocab <= 0 || size <= 0) {
    throw InternalError(fmt::format("synthetic source: vocab {}, size {}", vocab, size));
  }
  return std::make_shared<SyntheticSource>(seed, vocab, size);
}

void CheckRange(const TokenSource& source, int64_t offset, int64_t count) {
  if (offset < 0 || count < 0 || offset > source.size() || count > source.size() - offset) {
    throw InternalError(fmt::format("{}: tokens [{}, +{}) asked for, it has {}", source.name(),
                                    offset, count, source.size()));
  }
}

}  // namespace plimsoll::data

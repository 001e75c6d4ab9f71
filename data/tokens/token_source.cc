#include "data/tokens/token_source.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/random.h"

namespace plimsoll::data {
namespace {

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

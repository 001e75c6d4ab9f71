#include "data/tokens/token_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

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

TokenStream::TokenStream(SourceList sources, std::optional<int32_t> document_end)
    : sources_(std::move(sources)), starts_{0}, document_end_(document_end) {
  for (const auto& source : sources_) {
    starts_.push_back(starts_.back() + source->size());
    has_mask_ = has_mask_ || source->has_mask();
  }
}

template <typename Visit>
void TokenStream::ForEachPart(int64_t offset, int64_t count, Visit visit) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), offset);
  size_t s = static_cast<size_t>(after - starts_.begin()) - 1;
  for (int64_t done = 0; done < count; ++s) {
    const int64_t within = offset + done - starts_[s];
    const int64_t part = std::min(count - done, sources_[s]->size() - within);
    visit(*sources_[s], within, done, part);
    done += part;
  }
}

void TokenStream::Read(int64_t start, int64_t count, int32_t* out) const {
  ForEachPart(start, count,
              [&](const TokenSource& source, int64_t within, int64_t done, int64_t part) {
                source.Read(within, part, out + done);
              });
}

void TokenStream::ReadWindow(int64_t start, int64_t sequence, const TokenRow& out) const {
  Read(start, sequence, out.tokens);
  std::copy(out.tokens + 1, out.tokens + sequence, out.targets);
  Read(start + sequence, 1, out.targets + sequence - 1);
  if (has_mask_) {
    ForEachPart(start + 1, sequence,
                [&](const TokenSource& source, int64_t within, int64_t done, int64_t part) {
                  source.MaskTargets(within, part, out.targets + done);
                });
  }
  int32_t position = 0;
  for (int64_t i = 0; i < sequence; ++i) {
    const bool ends = document_end_ && out.tokens[i] == *document_end_;
    if (ends) out.targets[i] = kIgnoredTarget;
    if (out.positions != nullptr) out.positions[i] = position;
    position = ends ? 0 : position + 1;
  }
}

int64_t TokenStream::CountWindow(int64_t start, int64_t sequence) const {
  if (counts_all()) return sequence;
  int64_t total = 0;
  if (document_end_) {
    constexpr int64_t kAtOnce = 1024;
    std::array<int32_t, kAtOnce> tokens, targets;
    for (int64_t done = 0; done < sequence; done += kAtOnce) {
      const int64_t count = std::min(kAtOnce, sequence - done);
      ReadWindow(start + done, count, {tokens.data(), targets.data()});
      total += std::count_if(targets.begin(), targets.begin() + count,
                             [](int32_t target) { return target != kIgnoredTarget; });
    }
    return total;
  }
  ForEachPart(start + 1, sequence,
              [&](const TokenSource& source, int64_t within, int64_t, int64_t part) {
                total += source.CountTargets(within, part);
              });
  return total;
}

}  // namespace plimsoll::data

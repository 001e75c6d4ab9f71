#include "data/tokens/token_stream.h"

#include <algorithm>
#include <utility>

namespace plimsoll::data {

TokenStream::TokenStream(SourceList sources) : sources_(std::move(sources)), starts_{0} {
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

void TokenStream::ReadWindow(int64_t start, int64_t sequence, int32_t* inputs,
                             int32_t* targets) const {
  Read(start, sequence, inputs);
  std::copy(inputs + 1, inputs + sequence, targets);
  Read(start + sequence, 1, targets + sequence - 1);
  if (!has_mask_) return;
  ForEachPart(start + 1, sequence,
              [&](const TokenSource& source, int64_t within, int64_t done, int64_t part) {
                source.MaskTargets(within, part, targets + done);
              });
}

int64_t TokenStream::CountWindow(int64_t start, int64_t sequence) const {
  if (!has_mask_) return sequence;
  int64_t total = 0;
  ForEachPart(start + 1, sequence,
              [&](const TokenSource& source, int64_t within, int64_t, int64_t part) {
                total += source.CountTargets(within, part);
              });
  return total;
}

}  // namespace plimsoll::data

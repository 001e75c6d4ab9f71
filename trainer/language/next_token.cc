// Computes the next token's logits with the key-value cache while it is valid, and samples the
// token (temperature, top-k, top-p).
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "trainer/language/generate.h"

namespace plimsoll::trainer {
namespace {

// Writes tokens [first, first + count) of each text to the rows of a slot. The rest of a row is
// filled with token 0; no logits that are used depend on token 0.
void FillRows(std::span<const std::vector<int32_t>> texts, int64_t first, int64_t count,
              std::span<int32_t> slot) {
  const int64_t length = static_cast<int64_t>(slot.size() / texts.size());
  std::ranges::fill(slot, 0);
  for (size_t r = 0; r < texts.size(); ++r) {
    std::copy_n(texts[r].begin() + first, count, slot.begin() + static_cast<int64_t>(r) * length);
  }
}

}  // namespace

NextToken::NextToken(Session& session)
    : session_(session),
      rows_(session.compiled().options.generate_rows),
      context_(session.compiled().options.generate_context),
      prefill_(static_cast<size_t>(session.Elements("prefill.tokens"))),
      decode_(static_cast<size_t>(session.Elements("decode.tokens"))),
      whole_(static_cast<size_t>(session.Elements("logits.tokens"))),
      last_(static_cast<size_t>(session.Elements("last"))) {
  if (session.Elements("logits") == 0)
    throw InternalError("the session was not compiled for generating text");
}

std::span<const float> NextToken::Logits(std::span<const std::vector<int32_t>> texts) {
  const int64_t length = texts.empty() ? 0 : static_cast<int64_t>(texts[0].size());
  if (static_cast<int64_t>(texts.size()) != rows_ || length == 0 ||
      !std::ranges::all_of(texts,
                           [&](const auto& text) { return text.size() == texts[0].size(); })) {
    throw InternalError("next-token logits need texts of one length, as many as compiled for");
  }
  const int64_t count = std::min(length, context_);
  const int64_t first = length - count;
  if (!whole_.empty()) {
    RunWhole(texts, first, count);
  } else {
    cached_ = first == first_ ? CachedOf(texts, first, count) : 0;
    first_ = first;
    Extend(texts, first, count);
    seen_.assign(texts.begin(), texts.end());
  }
  logits_ = session_.Read<float>("logits");
  return logits_;
}

// The last token is always computed, because its logits are needed.
int64_t NextToken::CachedOf(std::span<const std::vector<int32_t>> texts, int64_t first,
                            int64_t count) const {
  int64_t cached = std::min(cached_, count - 1);
  for (size_t r = 0; r < seen_.size(); ++r) {
    const auto begin = texts[r].begin() + first;
    cached = std::mismatch(begin, begin + cached, seen_[r].begin() + first).first - begin;
  }
  return cached;
}

void NextToken::SetLast(int64_t position) {
  std::ranges::fill(last_, static_cast<int32_t>(position));
  session_.Write<int32_t>("last", last_);
}

void NextToken::RunWhole(std::span<const std::vector<int32_t>> texts, int64_t first,
                         int64_t count) {
  FillRows(texts, first, count, whole_);
  session_.Write<int32_t>("logits.tokens", whole_);
  SetLast(count - 1);
  session_.GatherWeights();
  session_.executor(session_.compiled().step.logits).Run();
}

void NextToken::Extend(std::span<const std::vector<int32_t>> texts, int64_t first, int64_t count) {
  const int64_t window = static_cast<int64_t>(prefill_.size()) / rows_;
  while (cached_ < count) {
    const bool one = count - cached_ == 1;
    // The last window of a prompt may begin before the end of the cache. It then recomputes the
    // same keys and values.
    const int64_t begin = one ? cached_ : std::min(cached_, std::max<int64_t>(0, count - window));
    const int64_t end = one ? count : std::min(count, begin + window);
    std::vector<int32_t>& tokens = one ? decode_ : prefill_;
    FillRows(texts, first + begin, end - begin, tokens);
    session_.Write<int32_t>(one ? "decode.tokens" : "prefill.tokens", tokens);
    const auto position = static_cast<int32_t>(begin);
    session_.Write<int32_t>("position", std::span(&position, 1));
    SetLast(end - begin - 1);
    const StepPrograms& step = session_.compiled().step;
    session_.GatherWeights();
    session_.executor(one ? step.decode : step.prefill).Run();
    cached_ = end;
  }
}

void Sampler::KeepNucleus(double total) {
  heap_.clear();
  // Of equally likely ids the smaller id comes first.
  for (size_t i = 0; i < order_.size(); ++i) heap_.emplace_back(weights_[i], -order_[i]);
  std::make_heap(heap_.begin(), heap_.end());
  order_.clear();
  weights_.clear();
  for (double sum = 0; !heap_.empty() && (order_.empty() || sum < top_p_ * total);) {
    std::pop_heap(heap_.begin(), heap_.end());
    const auto [weight, id] = heap_.back();
    heap_.pop_back();
    order_.push_back(-id);
    weights_.push_back(weight);
    sum += weight;
  }
}

int32_t Sampler::Draw(std::span<const float> logits, int64_t limit) {
  const size_t count = std::min<size_t>(logits.size(), static_cast<size_t>(limit));
  order_.resize(count);
  std::iota(order_.begin(), order_.end(), 0);
  auto likelier = [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  };
  if (temperature_ <= 0) return *std::min_element(order_.begin(), order_.end(), likelier);
  if (top_k_ > 0 && static_cast<size_t>(top_k_) < count) {
    std::nth_element(order_.begin(), order_.begin() + top_k_, order_.end(), likelier);
    order_.resize(top_k_);
    std::sort(order_.begin(), order_.end());
  }

  float largest = logits[order_[0]];
  for (int32_t id : order_) largest = std::max(largest, logits[id]);
  weights_.clear();
  double total = 0;
  for (int32_t id : order_) {
    weights_.push_back(std::exp((logits[id] - largest) / temperature_));
    total += weights_.back();
  }
  if (top_p_ < 1) {
    KeepNucleus(total);
    total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  }
  double draw = std::uniform_real_distribution<double>(0, total)(random_);
  for (size_t i = 0; i < order_.size(); ++i) {
    draw -= weights_[i];
    if (draw < 0) return order_[i];
  }
  return order_.back();
}

}  // namespace plimsoll::trainer

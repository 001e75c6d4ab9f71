#include "trainer/language/next_token.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll::trainer {
namespace {

// Writes tokens [first, first + count) of each text to the rows of a slot; the rest of a row is
// filled with token 0, on which none of the used logits depends.
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
    if (first != first_ || count <= cached_) cached_ = 0;
    first_ = first;
    Extend(texts, first, count);
  }
  logits_ = session_.Read<float>("logits");
  return logits_;
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
    // The last window of a prompt reaches back over tokens that are already in the cache: it
    // computes the same keys and values for them again.
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

}  // namespace plimsoll::trainer

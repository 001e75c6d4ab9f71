// Documents and tokens for tests, and reading of whole token sources.
#pragma once

#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "data/tokens/scratch_tokens.h"
#include "data/tokens/token_source.h"

namespace plimsoll::data {

// "saying 0\n%\nsaying 1\n%\n…"
inline std::string Sayings(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += "%\n";
    text += "saying " + std::to_string(i) + "\n";
  }
  return text;
}

// A source of tokens first, first + 1, …: each token shows its position.
inline std::shared_ptr<const TokenSource> Counting(int32_t first, int64_t size) {
  std::vector<int32_t> ids(static_cast<size_t>(size));
  std::iota(ids.begin(), ids.end(), first);
  ScratchTokenWriter writer({.name = "counting", .vocab = 1 << 30});
  writer.Append(ids, 0);
  return writer.Finish();
}

inline std::vector<int32_t> ReadAll(const TokenSource& source) {
  std::vector<int32_t> ids(static_cast<size_t>(source.size()));
  source.Read(0, source.size(), ids.data());
  return ids;
}

}  // namespace plimsoll::data

// Any bytes either are an IDX file, whose values are as many as its shape says, or raise a
// UserError. The first byte says of how many dimensions it is to be, the rest is the file. Memory
// (-rss_limit_mb) stays small whatever a header announces.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "data/images/idx_file.h"

namespace {

using plimsoll::UserError;
using plimsoll::data::IdxBytes;

void Require(bool condition) {
  if (!condition) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int dimensions = 1 + data[0] % 3;
  const std::span file = std::span(data, size).subspan(1);
  try {
    const IdxBytes read = plimsoll::data::ParseIdx(file, "fuzz", dimensions);
    Require(read.shape.size() == static_cast<size_t>(dimensions));
    size_t values = 1;
    for (const int64_t length : read.shape) {
      Require(length > 0);
      values *= static_cast<size_t>(length);
    }
    Require(read.values.size() == values);
    Require(values <= 1032 * file.size());  // as much as deflate can hold
  } catch (const UserError& error) {
    Require(std::string(error.what()).find('\n') == std::string::npos);
  }
  return 0;
}

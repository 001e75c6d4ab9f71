#include "formats/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <string_view>

#include "base/error.h"

namespace plimsoll::formats {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kBegin = "\x93NUMPY\x01\x00"sv;
constexpr size_t kAlignment = 64;
constexpr size_t kMostText = 0xffff;

static_assert(std::endian::native == std::endian::little, "elements are written as they lie");

}  // namespace

std::string NpyHeader(std::span<const int64_t> shape) {
  // In Python, a tuple of one element ends with a comma.
  std::string text = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}{}), }}",
                                 fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
  // The header ends with a line feed, right before the elements.
  const size_t before = kBegin.size() + 2, least = before + text.size() + 1;
  text.append((least + kAlignment - 1) / kAlignment * kAlignment - least, ' ');
  text += '\n';
  if (text.size() > kMostText) throw InternalError("npy: an array of too many dimensions");
  std::string header(kBegin);
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

}  // namespace plimsoll::formats

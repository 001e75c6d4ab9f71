// Of trainer/step/session.h: some elements of a parameter, into what this rank holds of it.
#include <algorithm>
#include <vector>

#include "base/axes.h"
#include "base/error.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

// Elements that are converted at a time: few enough for the cache where the host writes them, and
// many where each transfer to a device costs some time.
constexpr int64_t kOnHost = 4096, kForDevice = int64_t{1} << 20;

graph::TypedElements Some(const graph::TypedElements& of, int64_t begin, int64_t end) {
  return {of.dtype, of.data + begin * graph::ByteSize(of.dtype), end - begin};
}

}  // namespace

void Session::WriteElements(std::string_view name, int64_t first,
                            const graph::TypedElements& values) {
  const models::SplitParameter* const split = FindSplit(name);
  if (split == nullptr) return WriteElementsOfPart(name, first, values);
  const int64_t last = first + values.count;
  split->ForPieces(position_.at(kTensorAxis), [&](int64_t in_whole, int64_t in_part,
                                                  int64_t count) {
    const int64_t begin = std::max(first, in_whole);
    const int64_t end = std::min(last, in_whole + count);
    if (begin >= end) return;
    WriteElementsOfPart(name, begin - in_whole + in_part, Some(values, begin - first, end - first));
  });
}

void Session::WriteElementsOfPart(std::string_view name, int64_t first,
                                  const graph::TypedElements& values) {
  const std::string stem(name);
  const Where weight = Find(stem), remainder = Find(stem + ".remainder"),
              master = Find(stem + ".master");
  if (!weight.exists()) throw InternalError("no program carries '" + stem + "'");
  const auto divided = compiled_.divided.find(stem);
  const bool whole = divided == compiled_.divided.end() || weight.type.shape == divided->second;
  const models::ElementRange own = OwnedOfPart(name);
  const bool all = own.begin == 0 && own.end == weight.type.shape.elements();
  if (direct() && all && weight.type.dtype == graph::DType::kFloat32) {
    const int64_t count = std::min(values.count, own.end - first);
    if (count <= 0) return;
    return graph::CopyAsFloat32(Some(values, 0, count),
                                reinterpret_cast<float*>(weight.direct) + first);
  }
  const auto write = [&](const Where& to, int64_t at, int64_t count, const void* from) {
    if (!to.exists()) return;
    Where some = to;
    const int64_t size = graph::ByteSize(to.type.dtype);
    some.range.offset += at * size;
    some.range.bytes = count * size;
    if (some.direct != nullptr) some.direct += at * size;
    Put(some, from);
  };
  const int64_t most = std::min(direct() ? kOnHost : kForDevice, values.count);
  const auto room = static_cast<size_t>(most);
  std::vector<float> floats(room), masters(master.exists() ? room : 0);
  std::vector<std::byte> low(room * static_cast<size_t>(graph::ByteSize(weight.type.dtype)));
  std::vector<int16_t> rest(remainder.exists() ? room : 0);
  const int64_t last = first + values.count;
  for (int64_t begin = first, end = 0; begin < last; begin = end) {
    end = std::min(begin + most, last);
    // What makes a weight a float32 one, a rank has of its own part alone.
    for (const int64_t border : {own.begin, own.end}) {
      if (begin < border && border < end) end = border;
    }
    const bool is_own = own.begin <= begin && end <= own.end;
    if (!is_own && !whole) continue;
    const int64_t count = end - begin;
    graph::CopyAsFloat32(Some(values, begin - first, end - first), floats.data());
    StoredParameter(weight.type.dtype, count, low.data(), rest.empty() ? nullptr : rest.data(),
                    masters.empty() ? nullptr : masters.data())
        .Set({floats.data(), static_cast<size_t>(count)});
    std::unique_lock<std::mutex> lock;
    if (!direct()) lock = std::unique_lock(writing_);  // transfers come one after the other
    write(weight, whole ? begin : begin - own.begin, count, low.data());
    if (!is_own) continue;
    write(remainder, begin - own.begin, count, rest.data());
    write(master, begin - own.begin, count, masters.data());
  }
}

}  // namespace plimsoll::trainer

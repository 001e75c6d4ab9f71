// Whole parameters in float32, out of what this rank's arena holds of them: in 16 bits with a
// remainder or master weights, in the part of a tensor rank, in the part of a data rank. Into it:
// session_writes.cc. And weights in files.

#include <algorithm>
#include <cstring>

#include "base/axes.h"
#include "base/error.h"
#include "models/huggingface.h"
#include "parallel/zero_shards.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
using runtime::StoredParameter;

namespace {

// As ranks pass it to each other.
std::string_view TextOf(std::span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

}  // namespace

Session::Where Session::Require(std::string_view name) const {
  const Where where = Find(name);
  if (!where.exists()) throw InternalError("no program carries '" + std::string(name) + "'");
  return where;
}

StoredParameter Session::StoredOf(std::string_view name) const {
  const Where weight = Require(name), remainder = FindOwned(name, graph::OwnedAs::kRemainder);
  const Where master = FindOwned(name, graph::OwnedAs::kMaster);
  return {.dtype = weight.type.dtype,
          .elements = weight.type.shape.elements(),
          .data = weight.bytes.data(),
          .remainder = reinterpret_cast<int16_t*>(remainder.bytes.data()),
          .master = reinterpret_cast<float*>(master.bytes.data()),
          .has_remainder = remainder.exists()};
}

std::vector<float> Session::ReadStaged(std::string_view name, const Where& weight) const {
  const auto copy_of = [&](const Where& tensor) {
    std::vector<std::byte> bytes(tensor.bytes.size());
    Get(tensor, bytes.data());
    return bytes;
  };
  std::vector<std::byte> data = copy_of(weight);
  std::vector<std::byte> remainder = copy_of(FindOwned(name, graph::OwnedAs::kRemainder));
  std::vector<std::byte> master = copy_of(FindOwned(name, graph::OwnedAs::kMaster));
  return runtime::ValuesOf(weight.type.dtype, data, remainder, master);
}

const graph::Shape* Session::FindDivided(std::string_view name) const {
  const auto found = compiled_.divided.find(std::string(name));
  return found == compiled_.divided.end() ? nullptr : &found->second;
}

// A rank's part of a tensor that is whole here.
Session::Where Session::PartOf(Where whole, int64_t rank) const {
  const graph::Shape part = parallel::PartOf(whole.type.shape, position_.ranks(kDataAxis));
  whole.type.shape = part;
  const auto bytes = static_cast<size_t>(whole.type.bytes());
  whole.bytes = whole.bytes.subspan(static_cast<size_t>(rank) * bytes, bytes);
  return whole;
}

std::vector<float> Session::ReadDivided(std::string_view name) {
  const graph::Shape& shape = *FindDivided(name);
  Where weight = Require(name);
  if (weight.type.shape == shape) weight = PartOf(weight, position_.at(kDataAxis));
  const std::vector<float> part = ReadStaged(name, weight);
  runtime::RankGroup* const others = groups_.Of(kDataAxis);
  if (others == nullptr) {
    throw InternalError("a parameter that ranks divide is read without them");
  }
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  std::byte* to = reinterpret_cast<std::byte*>(values.data());
  for (const std::string& other : others->Gather(TextOf(part))) {
    std::memcpy(to, other.data(), other.size());
    to += other.size();
  }
  return values;
}

const models::SplitParameter* Session::FindSplit(std::string_view name) const {
  const auto found = compiled_.split.find(std::string(name));
  return found == compiled_.split.end() ? nullptr : &found->second;
}

std::vector<float> Session::ReadParameter(std::string_view name) {
  std::vector<float> part = ReadPart(name);
  const models::SplitParameter* const split = FindSplit(name);
  return split == nullptr ? part : Assemble(*split, part);
}

std::vector<float> Session::Assemble(const models::SplitParameter& split,
                                     std::span<const float> part) {
  runtime::RankGroup* const others = groups_.Of(kTensorAxis);
  if (others == nullptr) {
    throw InternalError("a parameter that ranks share is read without them");
  }
  const std::vector<std::string> parts = others->Gather(TextOf(part));
  std::vector<float> whole(static_cast<size_t>(split.shape().elements()));
  std::vector<float> other(part.size());
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    std::memcpy(other.data(), parts[rank].data(), parts[rank].size());
    split.PutPart(other, static_cast<int64_t>(rank), whole);
  }
  return whole;
}

std::vector<float> Session::ReadPart(std::string_view name) {
  if (FindDivided(name)) return ReadDivided(name);
  if (!direct()) return ReadStaged(name, Require(name));
  std::vector<float> values(static_cast<size_t>(Elements(name)));
  StoredOf(name).Get(values);
  return values;
}

std::span<float> Session::InPlace(std::string_view name) const {
  if (!direct() || IsShared(name)) return {};
  return StoredOf(name).InPlace();
}

// The writer says which parameter it is at, and with no name that there are no more.
void Session::SaveWeights(const models::Model& model, const std::string& folder) {
  if (position_.rank > 0) {
    ServeWeights();
    return;
  }
  std::vector<float> values;
  std::string current;  // the name of `values`
  models::SaveWeights(folder, model, [&](const models::ParameterInfo& parameter) -> const float* {
    const std::span<const float> place = InPlace(parameter.name);
    if (!place.empty()) return place.data();
    if (parameter.name == current) return values.data();
    current = parameter.name;
    if (IsShared(current)) Announce(current);
    values = ReadParameter(current);
    return values.data();
  });
  Announce("");
}

std::string Session::Announce(std::string name) {
  // Along the last axis, among ranks that are the first along all others; then along the one before
  // it, whose groups' first ranks know it now; and so on.
  const std::vector<MeshAxis>& axes = position_.mesh.axes();
  for (size_t i = axes.size(); i-- > 0;) {
    runtime::RankGroup* const others = groups_.Of(axes[i].name);
    const bool first =
        std::all_of(axes.begin(), axes.begin() + static_cast<ptrdiff_t>(i),
                    [&](const MeshAxis& axis) { return position_.at(axis.name) == 0; });
    if (others != nullptr && first) name = others->Broadcast(name);
  }
  return name;
}

void Session::ServeWeights() {
  for (;;) {
    const std::string name = Announce("");
    if (name.empty()) return;
    ReadParameter(name);
  }
}

}  // namespace plimsoll::trainer

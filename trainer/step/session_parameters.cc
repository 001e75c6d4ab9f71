// Part of trainer/step/session.h: reads unsharded parameters in float32, and saves weights to
// files. The arena may hold a parameter in 16 bits with a remainder or a master copy, and only as a
// tensor rank's or a data rank's shard. Writing parameters is in session_writes.cc.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/axes.h"
#include "base/error.h"
#include "models/huggingface.h"
#include "parallel/zero_shards.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
using runtime::StoredParameter;

Session::Where Session::Require(std::string_view name) const {
  const Where where = Find(name);
  if (!where.exists) throw InternalError("no program carries '" + std::string(name) + "'");
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
          .has_remainder = remainder.exists};
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

Session::Where Session::OwnPart(Where where, const graph::Shape& whole) const {
  if (where.type.shape != whole) return where;
  where.type.shape = parallel::PartOf(whole, position_.ranks(kDataAxis));
  const auto bytes = static_cast<size_t>(where.type.bytes());
  where.bytes = where.bytes.subspan(static_cast<size_t>(position_.at(kDataAxis)) * bytes, bytes);
  return where;
}

std::vector<std::string> Session::GatherParts(std::string_view axis, std::span<const float> part,
                                              std::string_view what) const {
  runtime::RankGroup* const others = groups_.Of(axis);
  if (others == nullptr) {
    throw InternalError(fmt::format("a parameter that ranks {} is read without them", what));
  }
  // The shard's bytes, as ranks send them to each other.
  return others->Gather({reinterpret_cast<const char*>(part.data()), part.size_bytes()});
}

std::vector<float> Session::ReadDivided(std::string_view name) {
  const graph::Shape& shape = *FindDivided(name);
  const std::vector<float> part = ReadStaged(name, OwnPart(Require(name), shape));
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  std::byte* to = reinterpret_cast<std::byte*>(values.data());
  for (const std::string& other : GatherParts(kDataAxis, part, "divide")) {
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
  if (!has_stages()) return ReadOfStage(name);
  std::vector<float> values;
  if (Carries(name)) values = ReadOfStage(name);
  for (const std::string& stage : GatherParts(kPipelineAxis, values, "of stages have")) {
    if (stage.empty()) continue;
    values.resize(stage.size() / sizeof(float));
    std::memcpy(values.data(), stage.data(), stage.size());
  }
  if (values.empty()) throw InternalError("no stage carries '" + std::string(name) + "'");
  return values;
}

std::vector<float> Session::ReadOfStage(std::string_view name) {
  std::vector<float> part = ReadPart(name);
  const models::SplitParameter* const split = FindSplit(name);
  if (split == nullptr) return part;
  const std::vector<std::string> parts = GatherParts(kTensorAxis, part, "share");
  std::vector<float> whole(static_cast<size_t>(split->shape().elements()));
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    std::memcpy(part.data(), parts[rank].data(), parts[rank].size());
    split->PutPart(part, static_cast<int64_t>(rank), whole);
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

// The writing rank announces each parameter by name; an empty name ends the list.
void Session::SaveWeights(const models::Model& model, const std::string& folder) {
  if (position_.rank > 0) {
    ServeWeights();
    return;
  }
  std::vector<float> values;
  std::string current;  // the name of the parameter in `values`
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
  // Broadcasts the name along the last axis, among the ranks that are first along all other axes.
  // Then broadcasts it along the axis before the last one, since now the first rank of each group
  // of that axis has the name. Continues up to the first axis.
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

// Of trainer/step/session.h: weights of a checkpoint, each rank's part of them, in pieces.
#include <algorithm>
#include <utility>

#include "base/axes.h"
#include "models/huggingface.h"
#include "trainer/step/reading_buffers.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

void Session::LoadWeights(const models::Model& model, const std::string& folder) {
  Load(model, folder, models::Misfits::kRefused);
}

std::vector<std::string> Session::StartFrom(const models::Model& model, const std::string& folder,
                                            uint64_t seed) {
  std::vector<std::string> fresh;
  for (const models::ParameterInfo& parameter : Load(model, folder, models::Misfits::kAllowed)) {
    InitializeOne(parameter, seed);
    fresh.push_back(parameter.name);
  }
  return fresh;
}

models::ElementRange Session::OwnedOfPart(std::string_view name) const {
  const auto divided = compiled_.divided.find(std::string(name));
  if (divided == compiled_.divided.end()) return {0, Elements(name)};
  const int64_t part = divided->second.elements() / position_.ranks(kDataAxis);
  const int64_t begin = position_.at(kDataAxis) * part;
  return {begin, begin + part};
}

std::vector<models::ElementRange> Session::Owned(const std::string& name) const {
  const Where weight = Find(name);
  if (!weight.exists()) return {};  // not every program reads states, or a head
  // A divided weight may be whole here all the same.
  const auto divided = compiled_.divided.find(name);
  const bool whole = divided == compiled_.divided.end() || weight.type.shape == divided->second;
  const models::ElementRange own =
      whole ? models::ElementRange{0, weight.type.shape.elements()} : OwnedOfPart(name);
  const models::SplitParameter* const split = FindSplit(name);
  if (split == nullptr) return {own};
  std::vector<models::ElementRange> ranges;
  split->ForPieces(position_.at(kTensorAxis),
                   [&](int64_t in_whole, int64_t in_part, int64_t count) {
                     const int64_t begin = std::max(own.begin, in_part);
                     const int64_t end = std::min(own.end, in_part + count);
                     const int64_t shift = in_whole - in_part;
                     if (begin < end) ranges.push_back({begin + shift, end + shift});
                   });
  return ranges;
}

std::vector<models::ParameterInfo> Session::Load(const models::Model& model,
                                                 const std::string& folder,
                                                 models::Misfits misfits) {
  const ReadingBuffers staging(*this);
  return models::LoadWeights(
      folder, model, staging.buffers(), device_.pool(),
      [&](const models::ParameterInfo& parameter, int64_t first,
          const graph::TypedElements& elements) {
        if (Carries(parameter.name)) WriteElements(parameter.name, first, elements);
      },
      {.misfits = misfits,
       .wanted = [&](const models::ParameterInfo& parameter) { return Owned(parameter.name); }});
}

}  // namespace plimsoll::trainer

// Part of trainer/step/session.h: writes elements of unsharded parameters, random or given, to this
// rank's shard of the parameters. This file decides where elements go; the device converts elements
// to their stored form (runtime/stored_parameter.h).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "base/axes.h"
#include "base/error.h"
#include "ops/norms/spectral_norm.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {
namespace {

InitialDraws DrawsOf(const models::ParameterInfo& parameter, uint64_t seed) {
  using Kind = InitialDraws::Kind;
  InitialDraws draws{.seed = seed, .stream = StreamOf(parameter.name)};
  switch (parameter.init.kind) {
    case models::Initializer::kZeros:
      break;
    case models::Initializer::kOnes:
      draws.scale = 1;
      break;
    case models::Initializer::kNormal:
      draws.kind = Kind::kNormal;
      draws.scale = static_cast<float>(parameter.init.stddev);
      break;
    case models::Initializer::kUniform:
      draws.kind = Kind::kUniform;
      draws.scale = static_cast<float>(parameter.init.bound);
      break;
  }
  return draws;
}

}  // namespace

void Session::ForStored(
    std::string_view name,
    FunctionRef<void(const runtime::StoredParameter&, const Stripe&)> body) const {
  const runtime::StoredParameter here = StoredOf(name);
  const graph::Shape* const divided = FindDivided(name);
  const int64_t all = divided == nullptr ? here.elements : divided->elements();

  // Elements `begin` to `end` of this tensor rank's shard; `stored` holds them.
  struct Range {
    int64_t begin, end;
    runtime::StoredParameter stored;
  };
  std::vector<Range> ranges;
  if (divided == nullptr) {
    ranges.push_back({0, here.elements, here});
  } else {
    // Data ranks shard the parameter. This rank may hold the unsharded weight; but it has a
    // remainder or a master copy only for its own shard.
    const int64_t part = all / position_.ranks(kDataAxis);
    const int64_t begin = position_.at(kDataAxis) * part, end = begin + part;
    const bool is_whole = here.elements == all;
    runtime::StoredParameter own = here;
    own.elements = part;
    if (is_whole) {
      runtime::StoredParameter others = here;
      others.remainder = nullptr;
      others.master = nullptr;
      ranges.push_back({0, begin, others.Part(0, begin)});
      ranges.push_back({end, all, others.Part(end, all)});
      own.data += begin * graph::ByteSize(here.dtype);
    }
    ranges.push_back({begin, end, own});
  }

  const models::SplitParameter* const split = FindSplit(name);
  int64_t first = 0;  // index of the stripe's first element in this tensor rank's shard
  for (const Stripe& stripe : split == nullptr ? std::vector<Stripe>{Stripe::Piece(0, all)}
                                               : split->Stripes(position_.at(kTensorAxis))) {
    for (const Range& range : ranges) {
      const int64_t begin = std::max(first, range.begin);
      const int64_t end = std::min(first + stripe.count, range.end);
      if (begin >= end) continue;
      body(range.stored.Part(begin - range.begin, end - range.begin),
           stripe.Part(begin - first, end - first));
    }
    first += stripe.count;
  }
}

int64_t Session::WholeElements(std::string_view name) const {
  if (const models::SplitParameter* const split = FindSplit(name)) return split->shape().elements();
  const graph::Shape* const divided = FindDivided(name);
  return divided != nullptr ? divided->elements() : Elements(name);
}

void Session::WriteParameter(std::string_view name, std::span<const float> values) {
  if (std::ssize(values) != WholeElements(name)) {
    throw InternalError(
        fmt::format("'{}' has {} elements, not {}", name, WholeElements(name), values.size()));
  }
  WriteElements(name, 0, TypedElements::Of(values));
}

void Session::WriteElements(std::string_view name, int64_t first, const TypedElements& values) {
  if (first < 0 || values.count < 0 || first > WholeElements(name) - values.count) {
    throw InternalError(fmt::format("'{}' has {} elements, not {} from {} on", name,
                                    WholeElements(name), values.count, first));
  }
  ForStored(name, [&](const runtime::StoredParameter& stored, const Stripe& stripe) {
    const int64_t begin = stripe.Below(first), end = stripe.Below(first + values.count);
    if (begin == end) return;
    Stripe of_values = stripe.Part(begin, end);
    of_values.first -= first;
    device_.Store(stored.Part(begin, end), of_values, values);
  });
}

void Session::Initialize(const models::ParameterInfo& parameter, uint64_t seed) {
  if (!Carries(parameter.name)) return;  // another stage has the parameter
  const InitialDraws draws = DrawsOf(parameter, seed);
  ForStored(parameter.name, [&](const runtime::StoredParameter& stored, const Stripe& stripe) {
    device_.Store(stored, stripe, draws);
  });
}

void Session::Initialize(const models::Model& model, uint64_t seed) {
  for (const models::ParameterInfo& parameter : model.parameters()) Initialize(parameter, seed);
  for (const models::SingularStates& states : model.singular_states()) StartSingularStates(states);
}

// Every rank computes the states from the unsharded parameter in float32, so the states are
// bit-identical for any number of ranks and any stored type.
void Session::StartSingularStates(const models::SingularStates& states) {
  if (!Carries(states.u) || !Carries(states.v)) return;
  AwaitWrites();
  const std::vector<float> weight = ReadParameter(states.parameter);
  std::vector<float> u(static_cast<size_t>(Elements(states.u)));
  std::vector<float> v(static_cast<size_t>(Elements(states.v)));
  std::ranges::fill(v, static_cast<float>(1 / std::sqrt(static_cast<double>(v.size()))));
  const graph::Shape shape = {std::ssize(u), std::ssize(v)};
  ops::PowerIterations(device_.pool(), shape, weight.data(), ops::kFirstPowerIterations, u.data(),
                       v.data());
  Write<float>(states.u, u);
  Write<float>(states.v, v);
}

}  // namespace plimsoll::trainer

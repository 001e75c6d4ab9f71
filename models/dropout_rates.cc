#include "models/dropout_rates.h"

#include <array>
#include <utility>

namespace plimsoll::models {
namespace {

using Rate = double DropoutRates::*;

constexpr std::array<std::pair<const char*, Rate>, 3> kPlaces = {{
    {"attention_dropout", &DropoutRates::attention},
    {"hidden_dropout", &DropoutRates::hidden},
    {"embedding_dropout", &DropoutRates::embedding},
}};

}  // namespace

DropoutRates DropoutRatesOf(const Settings& settings) {
  DropoutRates rates = settings.Float("attention_dropout");
  if (settings.Has("hidden_dropout")) {
    rates.hidden = rates.embedding = rates.classifier = settings.Float("hidden_dropout");
  }
  if (settings.Has("embedding_dropout")) rates.embedding = settings.Float("embedding_dropout");
  if (settings.Has("classifier_dropout")) rates.classifier = settings.Float("classifier_dropout");
  return rates;
}

std::vector<std::string> DropoutPlaces(const std::vector<Setting>& rows) {
  std::vector<std::string> places;
  for (const Setting& row : rows) {
    for (const auto& [name, rate] : kPlaces) {
      if (row.name == name) places.push_back(row.name);
    }
  }
  return places;
}

void CompleteDropout(const std::vector<std::string>& places, Settings& settings) {
  for (const std::string& place : places) {
    if (!settings.Has(place)) settings.Set(place, settings.Float("dropout"));
  }
}

void DeriveDropout(const std::vector<std::string>& places, const DropoutRates& loaded,
                   Settings& settings) {
  const bool all = settings.IsGiven("dropout");
  settings.Derive("dropout", loaded.hidden);
  for (const std::string& place : places) {
    for (const auto& [name, rate] : kPlaces) {
      if (place == name) settings.Derive(place, all ? settings.Float("dropout") : loaded.*rate);
    }
  }
}

}  // namespace plimsoll::models

// What PyTorch makes of a few steps of training (trajectories/*.safetensors, by
// make_trajectories.py): where they start from, and how far each tensor has moved.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/safetensors.h"
#include "models/huggingface.h"
#include "tests/models/formula_weights.h"
#include "tests/support/temp_folder.h"
#include "trainer/step/session.h"

namespace plimsoll::trainer {

struct Trajectory {
  explicit Trajectory(const std::string& name)
      : numbers("tests/models/trajectories/" + name + ".safetensors"),
        json(formats::JsonObject::FromText(numbers.metadata().at("case"), numbers.file())) {
    names = json.RequireStrings("names");
    for (const std::string& shape : json.RequireStrings("shapes")) {
      std::istringstream text(shape);
      shapes.emplace_back();
      for (int64_t dim; text >> dim;) shapes.back().push_back(dim);
    }
  }

  // Writes the checkpoint that training starts from.
  void Write(const TempFolder& folder) const {
    std::map<std::string, std::vector<int64_t>> by_name;
    for (size_t i = 0; i < names.size(); ++i) by_name[names[i]] = shapes[i];
    models::WriteWeightsByName(folder / "model.safetensors", by_name);
    folder.Write("config.json", json.RequireObject("config").json().dump());
  }

  Settings OwnSettings() const {
    Settings settings;
    const formats::JsonObject given = json.RequireObject("settings");
    for (const std::string& key : given.Keys()) {
      const auto& value = given.json().at(key);
      SettingValue setting = value.is_boolean()          ? SettingValue(value.get<bool>())
                             : value.is_string()         ? SettingValue(value.get<std::string>())
                             : value.is_number_integer() ? SettingValue(value.get<int64_t>())
                                                         : SettingValue(value.get<double>());
      settings.Set(key, std::move(setting), "test");
    }
    return settings;
  }

  // Losses, norms, distances and logits.
  std::vector<double> Numbers(const std::string& name) const {
    const formats::TensorEntry& entry = numbers.Require(name);
    EXPECT_EQ(entry.type, formats::TensorType::kF64) << name;
    std::vector<double> values(static_cast<size_t>(entry.elements));
    numbers.Read(entry, 0, std::as_writable_bytes(std::span(values)));
    return values;
  }

  formats::SafetensorsReader numbers;
  formats::JsonObject json;  // the settings, and the names and shapes of the tensors
  std::vector<std::string> names;
  std::vector<std::vector<int64_t>> shapes;
};

struct Moved {
  std::string name;
  double distance;
};

// How far the tensors of a checkpoint are from where they began.
inline std::vector<Moved> Distances(const Trajectory& c, const std::string& folder) {
  const formats::SafetensorsReader file(folder + "/model.safetensors");
  std::vector<Moved> moved;
  for (size_t i = 0; i < c.names.size(); ++i) {
    const formats::TensorEntry& entry = file.Require(c.names[i]);
    EXPECT_EQ(entry.shape, c.shapes[i]) << c.names[i];
    if (models::IsCount(c.names[i])) {
      int64_t count = 0;
      std::memcpy(&count, file.Raw(c.names[i]).data(), sizeof(count));
      moved.push_back({c.names[i], static_cast<double>(count - models::CountByName(c.names[i]))});
      continue;
    }
    std::vector<float> values(static_cast<size_t>(entry.elements));
    file.ReadFloat32(c.names[i], values.data(), entry.elements);
    const std::vector<float> first = models::WeightsByName(c.names[i], c.shapes[i]);
    double squares = 0;
    for (size_t k = 0; k < values.size(); ++k) {
      squares += std::pow(static_cast<double>(values[k]) - first[k], 2);
    }
    moved.push_back({c.names[i], std::sqrt(squares)});
  }
  return moved;
}

inline void ExpectMoved(const Trajectory& c, Session& session, const models::Model& model) {
  const TempFolder end;
  models::SaveWeights(end.path(), model, [&](const models::ParameterInfo& parameter) {
    static std::vector<float> values;
    values = session.ReadParameter(parameter.name);
    return values.data();
  });
  const std::vector<double> expected = c.Numbers("moved");
  const std::vector<Moved> moved = Distances(c, end.path());
  for (size_t i = 0; i < moved.size(); ++i) {
    EXPECT_NEAR(moved[i].distance, expected[i], 1e-3 * expected[i] + 1e-6) << moved[i].name;
  }
}

}  // namespace plimsoll::trainer

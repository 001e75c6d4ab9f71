// What PyTorch makes of a model whose weights follow from their names: numbers in float64, and in
// the header's metadata the JSON "case": config.json, the tensors' names and shapes, settings.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "formats/json.h"
#include "formats/safetensors.h"
#include "tests/models/formula_weights.h"
#include "tests/support/temp_folder.h"

namespace plimsoll::models {

struct RecordedCase {
  explicit RecordedCase(const std::string& path)
      : file(path),
        json(formats::JsonObject::FromText(file.metadata().at("case"), path)),
        names(json.RequireStrings("names")) {
    for (const std::string& shape : json.RequireStrings("shapes")) {
      std::istringstream text(shape);
      shapes.emplace_back();
      for (int64_t dim; text >> dim;) shapes.back().push_back(dim);
    }
  }

  // Writes the checkpoint without the tensors whose names end with `leave_out`.
  void Write(const TempFolder& folder, const std::string& leave_out = "-") const {
    std::map<std::string, std::vector<int64_t>> by_name;
    for (size_t i = 0; i < names.size(); ++i) by_name[names[i]] = shapes[i];
    WriteWeightsByName(folder / "model.safetensors", by_name, leave_out);
    folder.Write("config.json", json.RequireObject("config").json().dump());
  }

  std::vector<double> Numbers(const std::string& name) const {
    const formats::TensorEntry& entry = file.Require(name);
    EXPECT_EQ(entry.type, formats::TensorType::kF64) << name;
    std::vector<double> values(static_cast<size_t>(entry.elements));
    file.Read(entry, 0, std::as_writable_bytes(std::span(values)));
    return values;
  }

  formats::SafetensorsReader file;
  formats::JsonObject json;
  std::vector<std::string> names;
  std::vector<std::vector<int64_t>> shapes;
};

// Compares with another program's logits. Both sum in float32, in different orders.
inline void ExpectLogits(const std::vector<float>& logits, const std::vector<double>& reference,
                         double tolerance, const std::string& what) {
  ASSERT_EQ(logits.size(), reference.size()) << what;
  double largest = 0, difference = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    largest = std::max(largest, std::abs(reference[i]));
    difference = std::max(difference, std::abs(logits[i] - reference[i]));
  }
  EXPECT_GT(largest, 1) << what;
  EXPECT_LT(difference, tolerance * largest) << what;
}

}  // namespace plimsoll::models

// Labels of samples for models that classify, as they are written in lines of JSON:
//
//   "label": "praise"                  a class by its name
//   "label": 2                         or by its number, from 0
//   "label": ["weather", "news"]       several classes (multi-label), likewise
//   "labels": [1.0, 0.0, 1.0]          a value for each class
//   "label": 3.5                       a number (regression)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "formats/json.h"
#include "graph/slot.h"
#include "graph/tensor.h"

namespace plimsoll::data {

// The form of labels that the model reads.
enum class LabelKind {
  kClass,    // the input "labels": one class
  kClasses,  // the input "label_values" with a value for each class: any number of classes
  kNumber,   // the input "label_values": a number
};
// The kind for a model whose input "label_values" has that shape for one sample (ModelSizes).
LabelKind LabelKindOf(const graph::Shape& label_values);

// A label as written in a file.
struct GivenLabel {
  // Class names, or class numbers in decimal; exactly one for LabelKind::kClass.
  std::vector<std::string> names;
  bool numbered = false;
  // For LabelKind::kClasses, a value for each class if the line gives values instead of names. For
  // LabelKind::kNumber, the number.
  std::vector<float> values = {};
  std::string where;  // "FILE:LINE", or the file
};
// Reads the label of a line. Throws a UserError, which names the file and line, if the label is
// missing, invalid or not of the kind `kind`.
GivenLabel ParseLabel(const formats::JsonObject& line, const std::string& where, LabelKind kind);

// A label in the form that the model reads.
struct SampleLabel {
  static constexpr int32_t kNone = -1;  // number of rows that carry no loss

  int32_t number = kNone;  // the class number
  // The nonzero entries of a row of "label_values": (index, value).
  std::vector<std::pair<int32_t, float>> values = {};
  bool has_values = false;  // false: the row has no label
};

// The class names, indexed by class number.
struct LabelClasses {
  std::vector<std::string> names;
  std::string from = "data.label_names or data.train";  // the origin of the names, for messages
  // Converts a label. A UserError names the place when a class is not among `names`, a class number
  // is not below `most` (the model's number of classes; 0: any), or the number of values is not
  // `most`.
  SampleLabel Of(const GivenLabel& given, LabelKind kind, int64_t most) const;

 private:
  int32_t NumberOf(const std::string& label, const GivenLabel& given, int64_t most) const;
};

// Collects the classes. `given`: the names in order. If empty, the classes are the sorted names in
// the labels, or the numbers up to the largest one. Throws a UserError when some labels have names
// and others numbers or values.
LabelClasses ClassesOf(const std::vector<const GivenLabel*>& labels,
                       const std::vector<std::string>& given);
LabelClasses ClassesOf(const std::vector<GivenLabel>& labels,
                       const std::vector<std::string>& given);

// The labels of many samples; each sample has a row.
class LabelTable {
 public:
  void Add(const SampleLabel& label);
  int64_t count() const { return std::ssize(rows_); }
  // Returns SampleLabel::kNone for a row outside the table.
  int32_t number(int64_t row) const;
  // Fills a row of "label_values". The row becomes NaN if it is outside the table or has no label.
  void FillValues(int64_t row, std::span<float> to) const;

 private:
  static constexpr int64_t kNoValues = -1;
  struct Row {
    int32_t number = SampleLabel::kNone;
    int64_t first = 0, end = kNoValues;  // range in values_
  };
  Row At(int64_t row) const {
    return row >= 0 && row < std::ssize(rows_) ? rows_[static_cast<size_t>(row)] : Row();
  }

  std::vector<Row> rows_;
  std::vector<std::pair<int32_t, float>> values_;  // nonzero entries of all rows
};

// Random labels of made-up samples, a pure function of seed and sample. "labels" i32[B] gets a
// class each; "label_values" gets a 0 or 1 for each class if it is f32[B,C], and a standard normal
// number if it is f32[B].
bool IsLabels(const graph::Slot& slot);
// Fills the rows of the samples from number `first` on. Classes are below `classes`, which is at
// least 1.
void FillLabels(const graph::Slot& slot, int64_t first, int64_t classes, uint64_t seed);

}  // namespace plimsoll::data

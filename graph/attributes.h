// The constants of a node: a small ordered map from name to bool, integer, real or word.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace plimsoll::graph {

using AttributeValue = std::variant<bool, int64_t, double, std::string>;

class Attributes {
 public:
  using Entry = std::pair<std::string, AttributeValue>;

  Attributes() = default;
  Attributes(std::initializer_list<Entry> entries);

  void Set(std::string_view name, AttributeValue value);
  bool Has(std::string_view name) const { return Find(name) != nullptr; }

  // The following functions throw InternalError if the name is absent or its value has another
  // kind. GetReal also reads an integer. None of them allocates.
  bool GetBool(std::string_view name) const;
  int64_t GetInt(std::string_view name) const;
  double GetReal(std::string_view name) const;
  const std::string& GetWord(std::string_view name) const;

  // Sorted by name.
  const std::vector<Entry>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }
  bool operator==(const Attributes&) const = default;

 private:
  const AttributeValue* Find(std::string_view name) const;
  const AttributeValue& Require(std::string_view name) const;

  std::vector<Entry> entries_;
};

}  // namespace plimsoll::graph

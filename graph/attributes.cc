#include "graph/attributes.h"

#include <algorithm>

#include "base/error.h"

namespace plimsoll::graph {
namespace {

template <typename T>
const T& As(const AttributeValue& value, std::string_view name) {
  if (const T* held = std::get_if<T>(&value)) return *held;
  throw InternalError("attribute '" + std::string(name) + "' is of another kind");
}

}  // namespace

Attributes::Attributes(std::initializer_list<Entry> entries) {
  for (const Entry& entry : entries) Set(entry.first, entry.second);
}

void Attributes::Set(std::string_view name, AttributeValue value) {
  auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                             [](const Entry& e, std::string_view n) { return e.first < n; });
  if (at != entries_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    entries_.insert(at, Entry(std::string(name), std::move(value)));
  }
}

const AttributeValue* Attributes::Find(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

const AttributeValue& Attributes::Require(std::string_view name) const {
  const AttributeValue* value = Find(name);
  if (value == nullptr) throw InternalError("missing attribute '" + std::string(name) + "'");
  return *value;
}

bool Attributes::GetBool(std::string_view name) const { return As<bool>(Require(name), name); }
int64_t Attributes::GetInt(std::string_view name) const { return As<int64_t>(Require(name), name); }

double Attributes::GetReal(std::string_view name) const {
  const AttributeValue& value = Require(name);
  if (const int64_t* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  return As<double>(value, name);
}

const std::string& Attributes::GetWord(std::string_view name) const {
  return As<std::string>(Require(name), name);
}

}  // namespace plimsoll::graph

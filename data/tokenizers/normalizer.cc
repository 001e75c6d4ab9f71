#include "data/tokenizers/normalizer.h"

#include <algorithm>
#include <utility>

#include "data/tokenizers/unicode.h"

namespace plimsoll::data {
void Normalizer::AddNfc() { steps_.push_back({Kind::kNfc, "", ""}); }

void Normalizer::AddPrepend(std::string prefix) {
  steps_.push_back({Kind::kPrepend, "", std::move(prefix)});
}

void Normalizer::AddReplace(std::string pattern, std::string content) {
  steps_.push_back({Kind::kReplace, std::move(pattern), std::move(content)});
}

bool Normalizer::OnlyComposes() const {
  return std::ranges::all_of(steps_, [](const Step& step) { return step.kind == Kind::kNfc; });
}

bool Normalizer::Composes() const {
  return std::ranges::any_of(steps_, [](const Step& step) { return step.kind == Kind::kNfc; });
}

bool Normalizer::Prepends() const {
  return std::ranges::any_of(steps_, [](const Step& step) { return step.kind == Kind::kPrepend; });
}

bool Normalizer::CutsBeforeBlanks() const {
  bool replaced = false;
  for (const Step& step : steps_) {
    if (step.kind == Kind::kNfc && replaced) return false;
    if (step.kind != Kind::kReplace) continue;
    if (Utf8Length(step.pattern) != step.pattern.size()) return false;
    replaced = true;
  }
  return true;
}

std::string Normalizer::Apply(std::string_view text, bool within) const {
  std::string out(text);
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Kind::kNfc:
        out = ToNfc(out);
        break;
      case Kind::kPrepend:
        if (!out.empty() && !within) out.insert(0, step.content);
        break;
      case Kind::kReplace:
        out = ReplaceAll(out, step.pattern, step.content);
        break;
    }
  }
  return out;
}

std::string ReplaceAll(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  while (true) {
    const size_t found = text.find(pattern);
    out += text.substr(0, found);
    if (found == std::string_view::npos) return out;
    out += content;
    text.remove_prefix(found + pattern.size());
  }
}

}  // namespace plimsoll::data

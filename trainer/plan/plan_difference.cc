#include "trainer/plan/plan_difference.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "base/amounts.h"
#include "base/bytes.h"
#include "base/columns.h"
#include "base/error.h"
#include "formats/json.h"
#include "memory/report.h"

namespace plimsoll::trainer {
namespace {

using nlohmann::ordered_json;

// Predicted times that differ by at most this share count as equal.
constexpr double kSameTime = 1e-9;

// Whether a plan may depend on a key. Keys of `run` and `log` only say where a run writes.
bool ShapesPlan(const std::string& key) {
  return !key.starts_with("run.") && !key.starts_with("log.");
}

std::string BytesChange(int64_t old, int64_t now) {
  return fmt::format("{} → {}, {}{}", FormatBytes(old), FormatBytes(now), now < old ? "-" : "+",
                     FormatBytes(std::abs(now - old)));
}

std::string Milliseconds(double ms, bool sign = false) {
  const int digits = std::abs(ms) < 10 ? 2 : 1;
  return sign ? fmt::format("{:+.{}f} ms", ms, digits) : fmt::format("{:.{}f} ms", ms, digits);
}

// Growth as text: ", +3.1 %"; empty if the old value is 0.
std::string GrowthText(double old, double now) {
  if (old <= 0) return "";
  const double percent = 100 * (now - old) / old;
  return std::abs(percent) < 0.1 ? fmt::format(", {:+.1g} %", percent)
                                 : fmt::format(", {:+.1f} %", percent);
}

std::map<std::string, int64_t> RoleBytes(const ordered_json& roles) {
  std::map<std::string, int64_t> bytes;
  for (const auto& [role, held] : roles.items()) bytes[role] = held.get<int64_t>();
  return bytes;
}

int64_t Take(std::map<std::string, int64_t>& bytes, const std::string& role) {
  const auto node = bytes.extract(role);
  return node.empty() ? 0 : node.mapped();
}

// The texts of the passes that changed something, by program, in order.
using PassTexts = std::map<std::string, std::vector<std::pair<std::string, std::string>>>;

PassTexts TextsOf(const ordered_json& passes) {
  PassTexts texts;
  for (const ordered_json& pass : passes) {
    std::vector<std::pair<std::string, std::string>>& program = texts[pass.at("program")];
    if (!pass.at("changed").get<bool>()) continue;
    const std::string name = pass.at("pass"), summary = pass.at("summary");
    const auto known =
        std::ranges::find(program, name, &std::pair<std::string, std::string>::first);
    if (known == program.end()) {
      program.emplace_back(name, summary);
    } else {
      known->second += "; " + summary;
    }
  }
  return texts;
}

// The names of both lists, in the order of `now`; names that only `old` has follow.
template <typename List>
std::vector<std::string> NamesOf(const List& old, const List& now) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const List* list : {&now, &old}) {
    for (const auto& [name, value] : *list) {
      if (known.insert(name).second) names.push_back(name);
    }
  }
  return names;
}

std::string TextAt(const std::vector<std::pair<std::string, std::string>>& list,
                   const std::string& name) {
  const auto found = std::ranges::find(list, name, &std::pair<std::string, std::string>::first);
  return found == list.end() ? "" : found->second;
}

std::string TextOf(const ordered_json& object, const std::string& member) {
  const auto found = object.find(member);
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

ordered_json OrNull(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

}  // namespace

bool LooksLikePlan(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != text.npos && text[first] == '{' && text.find("\"arena_bytes\"") != text.npos;
}

NamedPlan ParsePlan(std::string_view text, const std::string& name) {
  const auto plan = formats::JsonObject::FromText(text, name);
  if (!plan.Has("arena_bytes")) {
    throw UserError(
        fmt::format("{}:1: is neither a run file nor a plan that plan --json saved: it has no "
                    "arena_bytes of its own; --sweep, --ranks and --parameters save lists",
                    name));
  }
  plan.RequireInt("arena_bytes", 0);
  for (const char* key : {"host_arena_bytes", "host_input_bytes", "threads"}) {
    plan.GetInt(key, 0, 0);
  }
  for (const char* key : {"predicted_step_ms", "flops_per_step"}) plan.GetFloat(key, 0);
  for (const char* key : {"device", "version"}) plan.GetString(key, "");
  if (plan.Has("bytes_by_role")) {
    const auto roles = plan.RequireObject("bytes_by_role");
    for (const std::string& role : roles.Keys()) roles.RequireInt(role, 0);
  }
  if (plan.Has("passes")) {
    for (const auto& pass : plan.RequireObjects("passes")) {
      for (const char* key : {"program", "pass", "summary"}) pass.RequireString(key);
      pass.RequireBool("changed");
    }
  }
  for (const char* key : {"decisions", "config"}) {
    if (!plan.Has(key)) continue;
    const auto texts = plan.RequireObject(key);
    for (const std::string& member : texts.Keys()) texts.RequireString(member);
  }
  if (plan.Has("choices")) plan.RequireObject("choices");
  if (plan.Has("given")) plan.RequireStrings("given");
  if (plan.Has("process_parts")) plan.RequireObject("process_parts").GetString("gpu", "");
  return {name, ordered_json::parse(text)};
}

PlanDifference::PlanDifference(NamedPlan now, NamedPlan old)
    : now_(std::move(now)), old_(std::move(old)) {
  CompareFigures();
  CompareRoles();
  ComparePasses();
  decisions_ = CompareTexts("decisions");
  choices_ = CompareTexts("choices");
  if (Old("flops_per_step") != nullptr) {
    const double before = old_.plan["flops_per_step"], after = now_.plan["flops_per_step"];
    Change change{"FLOPs a step", FormatCount(before), FormatCount(after)};
    if (change.old != change.now) flops_ = std::move(change);
  }
  changed_ = changed_ || !roles_.empty() || !passes_.empty() || !decisions_.empty() ||
             !choices_.empty() || flops_.has_value() || !programs_.old.empty() ||
             !programs_.now.empty();
  CompareConfigs();
  if (Old("version") != nullptr) {
    const std::string before = old_.plan["version"], after = now_.plan["version"];
    if (before != after) version_ = Change{"version", before, after};
  }
  FindReason();
}

const ordered_json* PlanDifference::Old(const char* member) {
  const auto found = old_.plan.find(member);
  if (found != old_.plan.end() && !found->is_null()) return &*found;
  missing_.emplace_back(member);
  return nullptr;
}

void PlanDifference::CompareFigures() {
  const auto add = [&](const char* member, const char* title, bool bytes, const char* first,
                       const char* second) {
    const auto sum = [&](const ordered_json& plan) {
      double all = plan[first];
      if (second != nullptr) all += plan.value(second, 0.0);
      return all;
    };
    Figure figure{member, title, bytes, sum(now_.plan), std::nullopt};
    if (Old(first) != nullptr) figure.old = sum(old_.plan);
    // A run and `plan` may sum the seconds of nodes in different orders.
    if (!bytes && figure.old && std::abs(figure.now - *figure.old) <= kSameTime * figure.now) {
      figure.old = figure.now;
    }
    changed_ = changed_ || (figure.old && *figure.old != figure.now);
    figures_.push_back(figure);
  };
  add("arena_bytes", "arena", true, "arena_bytes", nullptr);
  add("host_bytes", "host", true, "host_arena_bytes", "host_input_bytes");
  add("predicted_step_ms", "predicted step", false, "predicted_step_ms", nullptr);
}

void PlanDifference::CompareRoles() {
  const ordered_json* before = Old("bytes_by_role");
  if (before == nullptr) return;
  auto old = RoleBytes(*before), now = RoleBytes(now_.plan["bytes_by_role"]);
  const auto add = [&](const std::string& title, int64_t was, int64_t is) {
    if (was != is) roles_.push_back({title, was, is});
  };
  for (const memory::RoleRow& row : memory::RoleRows()) {
    int64_t was = 0, is = 0;
    for (const graph::Role role : row.roles) {
      const std::string name(graph::Name(role));
      was += Take(old, name);
      is += Take(now, name);
    }
    add(std::string(row.name), was, is);
  }
  // Roles of another version.
  for (const std::string& role : NamesOf(old, now)) add(role, Take(old, role), Take(now, role));
}

void PlanDifference::AddPass(const std::string& program, const std::string& pass,
                             const std::string& old, const std::string& now) {
  if (old == now) return;
  const auto same = std::ranges::find_if(passes_, [&](const PassChange& change) {
    return change.pass == pass && change.old == old && change.now == now;
  });
  if (same == passes_.end()) {
    passes_.push_back({pass, {program}, old, now});
  } else {
    same->programs.push_back(program);
  }
}

void PlanDifference::ComparePasses() {
  const ordered_json* before = Old("passes");
  if (before == nullptr) return;
  const PassTexts old = TextsOf(*before), now = TextsOf(now_.plan["passes"]);
  for (const auto& [program, texts] : now) {
    const auto same = old.find(program);
    if (same == old.end()) continue;
    for (const std::string& pass : NamesOf(same->second, texts)) {
      AddPass(program, pass, TextAt(same->second, pass), TextAt(texts, pass));
    }
  }
  // Programs that only one plan has cannot be compared. Lists these programs, and the passes that
  // changed nothing in any program of the other plan.
  const auto ran = [](const PassTexts& programs, const std::string& pass) {
    return std::ranges::any_of(
        programs, [&](const auto& program) { return !TextAt(program.second, pass).empty(); });
  };
  const auto alone = [&](const PassTexts& programs, const PassTexts& others, bool is_old) {
    std::vector<std::string> names;
    for (const auto& [program, texts] : programs) {
      if (others.contains(program)) continue;
      names.push_back(program);
      for (const auto& [pass, text] : texts) {
        if (!ran(others, pass)) AddPass(program, pass, is_old ? text : "", is_old ? "" : text);
      }
    }
    return fmt::format("{}", fmt::join(names, ", "));
  };
  programs_ = {"programs", alone(old, now, true), alone(now, old, false)};
}

std::vector<PlanDifference::Change> PlanDifference::CompareTexts(const char* member) {
  const ordered_json* before = Old(member);
  if (before == nullptr) return {};
  const ordered_json& after = now_.plan[member];
  std::vector<Change> changes;
  for (const std::string& name : NamesOf(before->items(), after.items())) {
    Change change{name, TextOf(*before, name), TextOf(after, name)};
    if (change.old != change.now) changes.push_back(std::move(change));
  }
  return changes;
}

void PlanDifference::CompareConfigs() {
  const auto given = [](const ordered_json& plan, const std::string& key) {
    const auto keys = plan.find("given");
    return keys == plan.end() || std::ranges::find(*keys, ordered_json(key)) != keys->end();
  };
  for (Change& change : CompareTexts("config")) {
    // A value that neither file gives follows from other keys, or is another version's default.
    if (!given(old_.plan, change.name) && !given(now_.plan, change.name)) continue;
    // A run's plan records the value chosen for `auto`.
    const auto chosen = [&](const ordered_json& plan) {
      return plan.contains("choices") && plan["choices"].contains(change.name);
    };
    const bool open = change.old == "auto" || change.now == "auto";
    if (open && chosen(old_.plan) && chosen(now_.plan)) continue;
    keys_.push_back(std::move(change));
  }
  // Settings that come from the machine or the command line, not from a key.
  const auto differs = [&](const char* key) {
    return std::ranges::find(keys_, key, &Change::name) != keys_.end();
  };
  const auto gpu = [](const ordered_json& plan) {
    const auto parts = plan.find("process_parts");
    return parts == plan.end() || parts->is_null() ? "" : TextOf(*parts, "gpu");
  };
  const std::string gpus[] = {gpu(old_.plan), gpu(now_.plan)};
  if (!gpus[0].empty() && !gpus[1].empty() && gpus[0] != gpus[1] && !differs("memory.device")) {
    keys_.push_back({"--device", gpus[0], gpus[1]});
  }
  const auto threads = [](const ordered_json& plan) {
    return TextOf(plan, "device") == "cpu" ? TextOf(plan, "threads") : "";
  };
  const std::string counts[] = {threads(old_.plan), threads(now_.plan)};
  if (!counts[0].empty() && !counts[1].empty() && counts[0] != counts[1] &&
      !differs("train.threads")) {
    keys_.push_back({"train.threads", counts[0], counts[1]});
  }
}

void PlanDifference::FindReason() {
  if (!changed_ || !old_.plan.contains("config")) return;
  std::vector<const Change*> causes;
  for (const Change& key : keys_) {
    if (ShapesPlan(key.name)) causes.push_back(&key);
  }
  const auto said = [](const std::string& text) { return text.empty() ? "not set" : text; };
  if (causes.size() == 1) {
    reason_ =
        fmt::format("{}: {} → {}", causes[0]->name, said(causes[0]->old), said(causes[0]->now));
  } else if (causes.empty() && version_) {
    reason_ = fmt::format("the program's version: {} → {}", version_->old, version_->now);
  }
}

std::string PlanDifference::FigureText(const Figure& figure) {
  const auto bytes = [](double count) { return static_cast<int64_t>(count); };
  const std::string now = figure.bytes ? FormatBytes(bytes(figure.now)) : Milliseconds(figure.now);
  if (!figure.old || *figure.old == figure.now) return now;
  const double old = *figure.old;
  const std::string change = figure.bytes
                                 ? BytesChange(bytes(old), bytes(figure.now))
                                 : fmt::format("{} → {}, {}", Milliseconds(old), now,
                                               Milliseconds(figure.now - old, /*sign=*/true));
  return change + GrowthText(old, figure.now);
}

std::string PlanDifference::Unchanged() const {
  std::string text = fmt::format("nothing changes from {} to {}: ", old_.name, now_.name);
  bool first = true;
  for (const Figure& figure : figures_) {
    if (figure.bytes && figure.now == 0) continue;
    text += fmt::format("{}{} {}", first ? "" : ", ", figure.title, FigureText(figure));
    first = false;
  }
  if (!keys_.empty()) {
    std::vector<std::string> names;
    for (const Change& key : keys_) names.push_back(key.name);
    text += fmt::format("; keys that differ: {}", fmt::join(names, ", "));
  }
  if (!missing_.empty()) {
    text += fmt::format("; not in {}: {}", old_.name, fmt::join(missing_, ", "));
  }
  return text;
}

std::string PlanDifference::Text() const {
  if (!changed_) return Unchanged() + "\n";
  std::string text;
  for (const Figure& figure : figures_) {
    if (figure.bytes && figure.now == 0 && figure.old.value_or(0) == 0) continue;
    const bool same = figure.old && *figure.old == figure.now;
    text +=
        fmt::format("{:<16}{}{}\n", figure.title, FigureText(figure), same ? ", as before" : "");
  }
  const auto add = [&](const std::string& line, const char* indent) {
    text += Wrapped(line, kLineColumns, indent) + "\n";
  };
  std::string from = fmt::format("from {} to {}", old_.name, now_.name);
  const bool explained = !reason_.empty() || !old_.plan.contains("config");
  if (!explained && keys_.empty()) {
    from +=
        ", though neither keys nor versions differ: by measured rates, free memory, or changes "
        "that were not committed";
  } else if (!explained) {
    from += fmt::format("; {} {}", Counted(keys_.size(), "key"),
                        keys_.size() == 1 ? "differs" : "differ");
  }
  add(from, "  ");
  if (!reason_.empty()) add("because " + reason_, "  ");
  const auto list = [&](const char* title, const std::vector<Change>& changes,
                        const char* without) {
    if (changes.empty()) return;
    text += fmt::format("\n{}\n", title);
    for (const auto& [name, old, now] : changes) {
      add(fmt::format("  {}: {} → {}", name, old.empty() ? without : old,
                      now.empty() ? without : now),
          "    ");
    }
  };
  if (!roles_.empty()) text += "\nBytes at the peak\n";
  for (const RoleChange& role : roles_) {
    text += fmt::format("  {:<20}{}{}\n", role.title, BytesChange(role.old, role.now),
                        GrowthText(static_cast<double>(role.old), static_cast<double>(role.now)));
  }
  if (flops_) text += fmt::format("\nFLOPs a step: {} → {}\n", flops_->old, flops_->now);
  if (!passes_.empty()) text += "\nPasses\n";
  for (const auto& [pass, programs, old, now] : passes_) {
    add(fmt::format("  {} ({}): {} → {}", pass, fmt::join(programs, ", "),
                    old.empty() ? "changed nothing" : old, now.empty() ? "changes nothing" : now),
        "    ");
  }
  if (!programs_.old.empty() || !programs_.now.empty()) {
    add(fmt::format("  programs: {} → {}", programs_.old.empty() ? "none more" : programs_.old,
                    programs_.now.empty() ? "none more" : programs_.now),
        "    ");
  }
  list("Tensors that are recomputed, offloaded or on the host, by block", decisions_,
       "kept on the device");
  list("Chosen", choices_, "not open");
  list("Keys", keys_, "not set");
  if (version_) list("Program", {*version_}, "");
  if (!missing_.empty()) {
    text += "\n";
    add(fmt::format("not compared, as {} lacks them: {}", old_.name, fmt::join(missing_, ", ")),
        "  ");
  }
  return text;
}

ordered_json PlanDifference::Json() const {
  ordered_json json = {{"new", now_.name}, {"old", old_.name}, {"changed", changed_}};
  for (const Figure& figure : figures_) {
    const auto number = [&](double value) {
      return figure.bytes ? ordered_json(static_cast<int64_t>(value)) : ordered_json(value);
    };
    ordered_json& member = json[figure.member];
    member = {{"old", nullptr}, {"new", number(figure.now)}, {"growth", nullptr}};
    if (!figure.old) continue;
    member["old"] = number(*figure.old);
    if (*figure.old > 0) member["growth"] = (figure.now - *figure.old) / *figure.old;
  }
  json["because"] = OrNull(reason_);
  json["bytes_by_role"] = ordered_json::object();
  if (old_.plan.contains("bytes_by_role")) {
    auto old = RoleBytes(old_.plan["bytes_by_role"]), now = RoleBytes(now_.plan["bytes_by_role"]);
    for (const std::string& role : NamesOf(old, now)) {
      const int64_t was = Take(old, role), is = Take(now, role);
      if (was != is) json["bytes_by_role"][role] = {{"old", was}, {"new", is}};
    }
  }
  json["passes"] = ordered_json::array();
  for (const auto& [pass, programs, old, now] : passes_) {
    json["passes"].push_back(
        {{"pass", pass}, {"programs", programs}, {"old", OrNull(old)}, {"new", OrNull(now)}});
  }
  const auto list = [&](const char* member, const std::vector<Change>& changes) {
    json[member] = ordered_json::object();
    for (const auto& [name, old, now] : changes) {
      json[member][name] = {{"old", OrNull(old)}, {"new", OrNull(now)}};
    }
  };
  list("decisions", decisions_);
  list("choices", choices_);
  list("config", keys_);
  json["version"] = nullptr;
  if (version_) json["version"] = {{"old", version_->old}, {"new", version_->now}};
  json["not_compared"] = missing_;
  return json;
}

std::vector<std::string> PlanDifference::Grown(double share) const {
  std::vector<std::string> grown;
  for (const Figure& figure : figures_) {
    if (!figure.old) {
      throw UserError(
          fmt::format("{}: has no {}, which --fail-above compares; save the plan anew "
                      "with plan --json",
                      old_.name, figure.member));
    }
    if (figure.now > *figure.old && figure.now > *figure.old * (1 + share)) {
      grown.push_back(fmt::format("{} {}", figure.title, FigureText(figure)));
    }
  }
  return grown;
}

}  // namespace plimsoll::trainer

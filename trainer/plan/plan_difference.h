// The difference between two memory plans: `plan NEW --diff OLD`. Plans are compared as the JSON of
// plan_json.h, so one of them may be a file of another version of the program.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::trainer {

struct NamedPlan {
  std::string name;  // the file's name, for messages
  nlohmann::ordered_json plan;
};

// Whether a text looks like a plan that `plan --json` or a run saved: a JSON object that contains
// arena_bytes, even if its syntax is wrong.
bool LooksLikePlan(std::string_view text);
// Parses a plan. Ignores unknown members; missing members stay missing. Throws a UserError for
// wrong syntax, with the line, for a list of plans, and for a compared member of the wrong type.
NamedPlan ParsePlan(std::string_view text, const std::string& name);

class PlanDifference {
 public:
  PlanDifference(NamedPlan now, NamedPlan old);

  // Whether the plans differ. The configurations may differ even if the plans do not.
  bool changed() const { return changed_; }

  // One line if nothing changed. Otherwise arena, host and predicted time come first, with the
  // reason if only one key changed; all other changes follow.
  std::string Text() const;
  nlohmann::ordered_json Json() const;

  // A text for each figure that grew by more than this fraction of its old value: "arena 1.20 GiB →
  // 1.30 GiB, +8.3 %". Throws a UserError if the old plan lacks a figure.
  std::vector<std::string> Grown(double share) const;

 private:
  // A compared figure: arena, host or predicted time. Bytes are integers.
  struct Figure {
    const char* member;
    const char* title;
    bool bytes;
    double now;
    std::optional<double> old;
  };
  struct RoleChange {
    std::string title;
    int64_t old, now;
  };
  // The change of a value, as texts; an empty text means that the plan lacks the value.
  struct Change {
    std::string name;
    std::string old, now;
  };

  // A pass's changes to these programs, as the pass reports them.
  struct PassChange {
    std::string pass;
    std::vector<std::string> programs;
    std::string old, now;
  };

  void CompareFigures();
  void CompareRoles();
  void ComparePasses();
  void CompareConfigs();
  std::vector<Change> CompareTexts(const char* member);
  void AddPass(const std::string& program, const std::string& pass, const std::string& old,
               const std::string& now);
  void FindReason();
  std::string Unchanged() const;
  // A member of the old plan; nullptr, with a note, if the old plan lacks the member.
  const nlohmann::ordered_json* Old(const char* member);

  static std::string FigureText(const Figure& figure);

  NamedPlan now_, old_;
  bool changed_ = false;
  std::vector<Figure> figures_;
  std::vector<RoleChange> roles_;
  std::vector<PassChange> passes_;
  Change programs_;  // programs that only one of the plans has
  std::vector<Change> decisions_, choices_, keys_;
  std::optional<Change> flops_, version_;
  std::string reason_;                // the only cause of the change; empty means unknown
  std::vector<std::string> missing_;  // members that the old plan lacks
};

}  // namespace plimsoll::trainer

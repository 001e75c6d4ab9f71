// What changes from one memory plan to another: `plan NEW --diff OLD`. Plans are compared as the
// JSON of plan_json.h, so that one may be a file of another version of the program.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace plimsoll::trainer {

struct NamedPlan {
  std::string name;  // of its file, for messages
  nlohmann::ordered_json plan;
};

// Whether a text is meant as a plan that `plan --json` or a run saved: a JSON object that says
// arena_bytes somewhere, even if its syntax is wrong.
bool LooksLikePlan(std::string_view text);
// Reads it. Unknown members are ignored, missing ones left out. UserError for wrong syntax, with
// the line, for a list of plans, and for a member that is compared and has the wrong type.
NamedPlan ParsePlan(std::string_view text, const std::string& name);

class PlanDifference {
 public:
  PlanDifference(NamedPlan now, NamedPlan old);

  // Whether anything of the plan differs. The configurations may, nevertheless.
  bool changed() const { return changed_; }

  // One line if nothing changed. Otherwise arena, host and predicted time first, with the reason if
  // one key alone was changed; then what else changed.
  std::string Text() const;
  nlohmann::ordered_json Json() const;

  // The figures that grew by more than this share of the old ones, a text each: "arena 1.20 GiB →
  // 1.30 GiB, +8.3 %". UserError when the old plan lacks one of them.
  std::vector<std::string> Grown(double share) const;

 private:
  // Arena, host and predicted time. Bytes are whole.
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
  // A value in words; empty: not there.
  struct Change {
    std::string name;
    std::string old, now;
  };

  // What a pass says that it changed, in these programs.
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
  // The member of the old plan; nullptr: the file lacks it, which is noted.
  const nlohmann::ordered_json* Old(const char* member);

  static std::string FigureText(const Figure& figure);

  NamedPlan now_, old_;
  bool changed_ = false;
  std::vector<Figure> figures_;
  std::vector<RoleChange> roles_;
  std::vector<PassChange> passes_;
  Change programs_;  // that only the old plan has, and only the new one
  std::vector<Change> decisions_, choices_, keys_;
  std::optional<Change> flops_, version_;
  std::string reason_;                // what alone explains the change; empty: nothing does
  std::vector<std::string> missing_;  // members that the old plan lacks
};

}  // namespace plimsoll::trainer

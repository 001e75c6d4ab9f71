#include "studies/latex_table.h"

#include <gtest/gtest.h>

namespace plimsoll::studies {
namespace {

using nlohmann::ordered_json;

TEST(LatexTable, EscapesWhatLatexReads) {
  EXPECT_EQ(LatexText("a_b & 50 % #1 $x$ {y} ~ ^ \\ <\n>"),
            "a\\_b \\& 50 \\% \\#1 \\$x\\$ \\{y\\} \\textasciitilde{} \\textasciicircum{} "
            "\\textbackslash{} \\textless{} \\textgreater{}");
  EXPECT_EQ(LatexText("2.8 ± 0.1, zurück"), "2.8 $\\pm$ 0.1, zurück");
}

TEST(LatexTable, HasTheCellsOfTheTable) {
  const ordered_json columns = {
      {{"key", "name"}, {"label", "row"}, {"unit", "text"}},
      {{"key", "step_ms"}, {"label", "step"}, {"unit", "ms"}},
      {{"key", "loss_difference"}, {"label", "difference"}, {"unit", "number"}}};
  const ordered_json rows = {{{"name", "[base]"}, {"step_ms", 12.5}},
                             {{"name", "bf16_a"}, {"step_ms", 10}, {"loss_difference", -0.013}},
                             {{"name", "tight"}, {"note", "not within\nthe budget"}}};
  EXPECT_EQ(LatexTable("Mine", rows, columns),
            "% Mine\n"
            "% \\usepackage{booktabs}\n"
            "\\begin{tabular}{lrr}\n"
            "\\toprule\n"
            "row & step ms & difference \\\\\n"
            "\\midrule\n"
            "{[}base] & 12.5 &  \\\\\n"
            "bf16\\_a & 10 & $-$1.3e$-$02 \\\\\n"
            "tight &  &  \\\\\n"
            "\\bottomrule\n"
            "\\end{tabular}\n"
            "% tight: not within the budget\n");
}

}  // namespace
}  // namespace plimsoll::studies

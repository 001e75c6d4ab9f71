// usage: write_pages FOLDER: writes the pages that browser_test.py looks at.

#include <fstream>
#include <iostream>
#include <string>

#include "reports/study_page.h"
#include "tests/reports/sample_study.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: write_pages FOLDER\n";
    return 2;
  }
  const std::string folder = argv[1];
  std::ofstream study(folder + "/study.html");
  study << plimsoll::reports::StudyPage(plimsoll::reports::SampleStudy());
  study.close();
  return study.good() ? 0 : 1;
}

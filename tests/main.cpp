// The main function of the test program; every other file under tests/ holds test cases only.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  setenv("PELLUCID_YIELD", "0", 0);  // several threads are several, however busy the machine is
  return doctest::Context(argc, argv).run();
}

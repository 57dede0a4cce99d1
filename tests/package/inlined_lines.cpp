// The same program optimised, so that what is in our headers is inlined into its functions.
#define FIRST_SIZE 1000
#define lines_are_of_the_program lines_of_inlined_code_are_of_the_program
#include "lines.cpp"

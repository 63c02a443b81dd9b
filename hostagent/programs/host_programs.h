/* The programs in C: the one list. A program is a file that defines `const struct program_ops NAME_program`, and a line here.
 *
 * Without an include guard: to do something for each, define PROGRAM(name) and include this once more. Programs
 * in Python are no part of it: they are named by module and class.
 */
PROGRAM(echo)
PROGRAM(allreduce)
PROGRAM(allreduce_server)
